"""Checks of creates: one for each token, all or none, and the cause of every refusal."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from nbprov.clouds.base import LOGIN_LABEL
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import Accepted, CreateOperation, InstanceState, Launch, Refused
from nbprov.model.places import Market

from .checks import check, expect_cause, failure_of, needs, refusal
from .relay import PAGE, Relay, RelayedRequest, RelayFault
from .subject import SCRIPTED, CloudUnderTest, eventually

SENTENCE = re.compile(r"(?<=[\">])[^\"<>{}\\]*\w[.,:;]? [^\"<>{}\\]*(?=[\"<])")
"""Words with a space between them, as a value in JSON or XML."""
SAME = 40
"""So many characters of a refusal have to be in its message: the end may be left out."""
LATE = 0.3
"""Seconds after which a machine of a create that was given up is surely listed by a double."""


@check
def a_repeated_token_makes_nothing_new(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    first = subject.accepted(subject.cloud.submit(launch))
    again = subject.accepted(subject.make().submit(replace(launch, answer_by=time.time() + 60)))
    assert again == first
    assert [i.id for i in subject.alive(launch.owner)] == list(first)


@check
def a_repeat_at_the_same_instant_makes_nothing_new(subject: CloudUnderTest) -> None:
    needs(
        subject.cloud.capabilities.replayable,
        "not replayable: a create is never sent twice, and the listing is used instead",
    )
    launch = subject.launch()
    with ThreadPoolExecutor(6) as pool:
        operations = list(pool.map(lambda _: subject.make().submit(launch), range(6)))
    assert len({subject.accepted(o) for o in operations}) == 1
    assert len(subject.alive(launch.owner)) == 1


@check
def a_token_with_other_parameters_is_refused(subject: CloudUnderTest) -> None:
    can = subject.cloud.capabilities
    needs(can.replayable, "not replayable: a token is not the cloud's idempotency key")
    needs(can.multi_node, "one machine a create: nothing can be asked differently")
    launch = subject.launch()
    first = subject.accepted(subject.cloud.submit(launch))
    failure = refusal(subject, replace(launch, count=2))
    expect_cause(failure, Cause.BAD_REQUEST, what="a used token with another count")
    assert [i.id for i in subject.alive(launch.owner)] == list(first)


@check
def a_lost_answer_is_an_unknown_outcome_and_ends_in_one_machine(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    subject.lose_answer()
    with pytest.raises(CloudError) as raised:
        subject.cloud.submit(launch)
    assert raised.value.failure.cause is Cause.UNKNOWN_OUTCOME
    if subject.cloud.capabilities.replayable:
        ids = subject.accepted(subject.make().submit(launch))
    else:
        ids = eventually(
            lambda: tuple(i.id for i in subject.alive(launch.owner) if i.token == launch.token),
            "the lost machine",
        )
    assert len(ids) == 1
    assert eventually(lambda: [i.id for i in subject.alive(launch.owner)], "a listing") == list(ids)


@check
def a_create_that_comes_too_late_is_not_begun(subject: CloudUnderTest) -> None:
    launch = subject.launch(answer_by=time.time() - 1)
    failure = refusal(subject, launch)
    assert failure.cause in (Cause.TIMEOUT, Cause.CANCELLED)
    assert subject.cloud.list(launch.owner) == []


@check
def every_refusal_has_a_cause_and_the_clouds_own_words(subject: CloudUnderTest) -> None:
    assert subject.causes >= {
        Cause.CAPACITY,
        Cause.CREDENTIALS,
        Cause.BAD_REQUEST,
        Cause.RATE_LIMIT,
        Cause.TRANSIENT,
    }
    for cause in SCRIPTED:
        if cause not in subject.causes:
            continue
        subject.refuse(cause)
        market = Market.SPOT if cause is Cause.SPOT else Market.ON_DEMAND
        with _sentences(subject) as said:
            failure = refusal(subject, subject.launch(market=market))
        # A login that is refused is told in the words of the library that logs in.
        is_told = any(one[:SAME] in failure.message for one in said)
        assert is_told or not said or cause is Cause.CREDENTIALS, (
            f"a refusal for {cause}: expected the cloud's words {said}, got {failure.message!r}"
        )
        expect_cause(failure, cause, what=f"a create that is refused for {cause}")
        assert failure.message, f"a refusal for {cause} without words"
        if cause is Cause.RATE_LIMIT and subject.tells_retry_after:
            assert failure.retry_after == 3.0
    assert (Cause.SPOT in subject.causes) == subject.cloud.capabilities.spot
    assert subject.cloud.list("owner-1") == []


@contextlib.contextmanager
def _sentences(subject: CloudUnderTest) -> Iterator[list[str]]:
    """Yield a list of the sentences in the refusals of this block, where they can be read."""
    said: list[str] = []

    def note(status: int, body: bytes) -> bytes:
        found = SENTENCE.findall(body.decode("utf-8", "replace")) if status >= 400 else ()
        said.extend(one.strip() for one in found)
        return body

    if not subject.addresses:
        yield said
        return
    with subject.relay.rewritten(note):
        yield said


@check
def a_passing_fault_may_be_repeated_with_its_token(subject: CloudUnderTest) -> None:
    subject.refuse(Cause.TRANSIENT)
    launch = subject.launch()
    assert refusal(subject, launch).cause is Cause.TRANSIENT
    assert len(subject.accepted(subject.cloud.submit(launch))) == 1


@check
def an_unknown_operation_is_answered_from_the_listing(subject: CloudUnderTest) -> None:
    for launch in (subject.launch(), subject.other_launch()):
        if launch is None:
            continue
        ids = subject.accepted(subject.cloud.submit(launch))
        polled = subject.make().poll(CreateOperation(subject.cloud.name, launch.token, "forgotten"))
        assert polled == Accepted(ids), (
            f"an operation in {launch.candidate.offer.place} with nothing but its token: expected"
            f" {ids} from the listing, got {polled}"
        )
    assert isinstance(
        subject.cloud.poll(CreateOperation(subject.cloud.name, uuid.uuid4().hex, "never")), Refused
    )


@check
def all_or_none(subject: CloudUnderTest) -> None:
    if not subject.cloud.capabilities.multi_node:
        failure = refusal(subject, subject.launch(count=2))
        expect_cause(failure, Cause.BAD_REQUEST, what="two machines from a cloud that makes one")
        assert subject.cloud.list("owner-1") == [], "a refused create made a machine"
        return
    subject.leave(2)
    three = subject.launch(count=3)
    assert refusal(subject, three).cause is Cause.CAPACITY
    assert subject.cloud.list(three.owner) == []
    two = subject.launch(count=2)
    machines = subject.running(two)
    assert sorted(m.node for m in machines) == [0, 1]
    assert len({(m.host, m.port) for m in machines}) == 2
    assert refusal(subject, subject.launch()).cause is Cause.CAPACITY
    subject.cloud.terminate([m.id for m in machines])
    subject.gone(two.owner, [m.id for m in machines])
    assert len(subject.running(subject.launch())) == 1


@check
def a_lost_machine_is_replaced_once_under_its_token(subject: CloudUnderTest) -> None:
    needs(subject.cloud.capabilities.replaces_nodes, "replaces_nodes is False")
    launch = subject.launch(count=3)
    first = subject.running(launch)
    ever = {m.id for m in first}
    lost = next(m for m in first if m.node == 1)
    for part in (1, 2):
        subject.cloud.terminate([lost.id])
        subject.gone(launch.owner, [lost.id])
        again = replace(launch, count=1, nodes=(1,), part=part)
        subject.lose_answer()
        with pytest.raises(CloudError) as raised:
            subject.cloud.submit(again)
        assert raised.value.failure.cause is Cause.UNKNOWN_OUTCOME
        with ThreadPoolExecutor(3) as pool:
            operations = list(
                pool.map(lambda _, again=again: subject.make().submit(again), range(3))
            )
        (made,) = {subject.accepted(operation) for operation in operations}
        assert len(made) == 1
        assert made[0] not in ever, "neither a machine of the first create nor the id of a lost one"
        lost = subject.in_state(launch.owner, made[0], InstanceState.RUNNING)
        assert (lost.node, lost.token, lost.place, lost.by_itself) == (
            1,
            launch.token,
            first[0].place,
            False,
        )
        there = {i.node: i.id for i in subject.alive(launch.owner)}
        assert there == {m.node: m.id for m in first if m.node != 1} | {1: made[0]}
        ever.add(made[0])


@check
def a_create_whose_answer_is_lost_is_never_forgotten(subject: CloudUnderTest) -> None:
    """A gateway's page, an answer that is cut, or none at all, after the create was carried out."""
    relay, launch = subject.relay, subject.launch()
    with relay.noted() as sent:
        ids = subject.accepted(subject.cloud.submit(launch))
    subject.cloud.terminate(ids)
    subject.gone(launch.owner, ids)
    steps = sum(makes(launch, one) for one in sent)
    assert steps, "no request of a create has the launch's token: put it into a tag or the name"
    for fault in (
        RelayFault(502, PAGE, delivered=True),
        RelayFault(500, b"{}", {"Content-Type": "application/json"}, delivered=True),
        RelayFault(delivered=True),
        RelayFault(200, b"", delivered=True),
        RelayFault(200, b"{}", {"Content-Type": "application/json"}, delivered=True),
        RelayFault(cut=True),
    ):
        for number in range(steps):
            _create_with(subject, relay, fault, number)


def _create_with(subject: CloudUnderTest, relay: Relay, fault: RelayFault, number: int) -> None:
    """Lose the answer of one step of a create that has its token; what is left has to be known."""
    launch, cloud = subject.launch(), subject.make()
    failure, sent, is_named = None, list[RelayedRequest](), True

    def spoil(_: int, asked: RelayedRequest) -> RelayFault | None:
        if not makes(launch, asked):
            return None
        sent.append(asked)
        return fault if len(sent) > number else None

    with relay.scripted(spoil):
        try:
            operation = cloud.submit(launch)
        except Exception as error:
            failure = cloud.classify(error)  # as the engine does
            is_named = isinstance(error, CloudError)
    what = f"{fault} for step {number + 1} of a create (it ended with {failure})"
    assert len({one.line for one in sent}) == len(sent), f"{what}: it was sent {len(sent)} times"
    ids = subject.accepted(operation) if failure is None else ()
    made = [one for one in subject.alive(launch.owner) if one.token == launch.token]
    if not made:
        time.sleep(LATE)
        made = [one for one in subject.alive(launch.owner) if one.token == launch.token]
    assert len(made) <= launch.count, f"{what}: {len(made)} machines instead of one: {made}"
    if failure is None:
        assert {one.id for one in made} == {*ids}, f"{what}: expected {ids}, listed {made}"
    elif made:
        # The engine takes an error that an adapter did not foresee for an unknown outcome.
        causes = (Cause.UNKNOWN_OUTCOME, *(() if is_named else (Cause.UNKNOWN,)))
        expect_cause(failure, *causes, what=f"{what}, and a machine exists")
    subject.cloud.terminate([one.id for one in made])
    subject.gone(launch.owner, [one.id for one in made])


def makes(launch: Launch, asked: RelayedRequest) -> bool:
    """Whether a request may be the create of a launch: it changes something and has its token."""
    return asked.method != "GET" and launch.token in asked.readable


@check
def a_create_that_was_never_sent_is_no_unknown_outcome(subject: CloudUnderTest) -> None:
    """A connection that is refused, for the whole call or just before the create."""
    relay = subject.relay
    for _ in range(2):  # the first one also makes what launches share
        launch = subject.launch()
        with relay.noted() as sent:
            ids = subject.cloud.submit(launch)
        before = [number for number, one in enumerate(sent) if makes(launch, one)]
        made = subject.accepted(ids)
        subject.cloud.terminate(made)
        subject.gone(launch.owner, made)
    assert before, "no request of a create has the launch's token: put it into a tag or the name"
    for number in sorted({0, before[0], before[-1]}):
        launch, cloud = subject.launch(), subject.make()
        with relay.unreachable(after=number):
            failure = failure_of(subject, partial(cloud.submit, launch), "a create without a way")
        expect_cause(failure, Cause.TRANSIENT, what="the connection for a create was refused")
        left = [one for one in subject.alive(launch.owner) if one.token == launch.token]
        assert left == [], "a create whose connection was refused made a machine"


@check
def spot_is_spot_or_refused(subject: CloudUnderTest) -> None:
    launch = subject.launch(market=Market.SPOT)
    if subject.cloud.capabilities.spot:
        (machine,) = subject.running(launch)
        assert machine.spot, "a spot machine is listed as an on-demand one"
        return
    expect_cause(refusal(subject, launch), Cause.SPOT, what="a spot launch without a spot market")
    assert subject.cloud.list(launch.owner) == [], "a refused spot launch made a machine"


@check
def labels_reach_the_cloud(subject: CloudUnderTest) -> None:
    relay = subject.relay
    needs(subject.labels, "it keeps no labels (`labels` is False)")
    launch = subject.launch()
    launch = replace(launch, tags={**launch.tags, "team": "vision7q"})
    with relay.noted() as sent:
        (machine,) = subject.running(launch)
    assert any("vision7q" in one.readable for one in sent), (
        "expected the label team=vision7q in a request of the create; none has it"
    )
    subject.cloud.terminate([machine.id])


@check
def the_login_follows_its_label(subject: CloudUnderTest) -> None:
    needs(subject.login_label, "no label sets the login there (`login_label` is False)")
    launch = subject.launch()
    launch = replace(launch, tags={**launch.tags, LOGIN_LABEL: "visitor7q"})
    (machine,) = subject.running(launch)
    assert machine.user == "visitor7q", (
        f"the label {LOGIN_LABEL}: expected the user visitor7q, got {machine.user!r}"
    )


@check
def an_image_is_used_or_refused(subject: CloudUnderTest) -> None:
    relay = subject.relay
    for image in ("image-7q", "docker:registry.example/image-7q:1"):
        launch = subject.launch(image=image)
        with relay.noted() as sent:
            try:
                ids = subject.accepted(subject.cloud.submit(launch))
            except (CloudError, AssertionError):
                assert subject.cloud.list(launch.owner) == [], "a refused image made a machine"
                continue
        asked = [one.readable for one in sent if "image-7q" in one.readable]
        assert asked, (
            f"the image {image}: expected it in the create or a refusal, but a machine was made"
            " without it"
        )
        assert "docker:registry" not in "".join(asked), (
            f"{image} was sent as the name of an image: `docker:` is nbprov's, not part of the name"
        )
        subject.cloud.terminate(ids)
        subject.gone(launch.owner, ids)
