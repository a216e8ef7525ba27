"""Checks of calls that fail: each says so, with a cause, and decides nothing."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from nbprov.model.failures import Cause
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    InstanceState,
    Pending,
    PollResult,
    Refused,
)

from .checks import changed, check, expect_cause, failure_of, needs, objects, refusal
from .relay import PAGE, RelayedRequest, RelayFault
from .subject import CloudUnderTest

BROKEN = (
    RelayFault(500, PAGE),
    RelayFault(429, b"", {"Retry-After": "0"}),
    RelayFault(404, b""),
    RelayFault(410, b""),
    RelayFault(200, b""),
    RelayFault(200, PAGE),
    RelayFault(),
)
DENIED = (RelayFault(401, b""), RelayFault(403, b""))
COMMON = (Cause.BAD_REQUEST, Cause.CAPACITY, Cause.QUOTA)
"""Causes for which every cloud may refuse a create."""
SAME = 40
"""So many characters of a refusal are looked for in its message."""


@check
def says_whether_it_can_be_used(subject: CloudUnderTest) -> None:
    told = subject.cloud.check()
    assert told.enabled, f"expected a cloud that can be used, got {told}"
    assert told.problem is None
    assert told.cloud == subject.cloud.name
    assert told.account, "`check` has to say whose account it is"
    assert subject.balance in " ".join(told.details), (
        f"expected the balance {subject.balance}, got {told.details}"
    )


@check
def a_check_that_fails_says_so_and_raises_nothing(subject: CloudUnderTest) -> None:
    for fault in BROKEN:
        with subject.relay.scripted(lambda *_, fault=fault: fault):
            told = subject.make().check()
        assert not told.enabled, f"{fault} for everything: expected a problem, got {told}"
        assert told.problem is not None, f"{fault}: disabled without a problem"
    with subject.relay.unreachable():
        told = subject.make().check()
    assert not told.enabled
    assert told.problem is not None
    expect_cause(told.problem, Cause.TRANSIENT, what="no connection for `check`")


@check
def without_credentials_nothing_is_sent(subject: CloudUnderTest) -> None:
    needs(subject.credentials, "it has no variables with credentials (`credentials`)")
    relay, before = subject.relay, {name: os.environ.pop(name) for name in subject.credentials}
    try:
        with relay.noted() as sent:
            told = subject.make().check()
            failure = failure_of(subject, partial(subject.make().list, "owner-1"), "no key")
    finally:
        os.environ.update(before)
    assert not told.enabled, "without credentials: expected a problem"
    assert told.problem is not None
    expect_cause(told.problem, Cause.CREDENTIALS, what="`check` without credentials")
    expect_cause(failure, Cause.CREDENTIALS, what="`list` without credentials")
    assert sent == [], f"without credentials a request was sent: {sent}"


@check
def whether_credentials_are_there_is_told_without_a_request(subject: CloudUnderTest) -> None:
    """`missing` of the package says it, and its fetcher is ready with them."""
    needs(subject.credentials, "it has no variables with credentials (`credentials`)")
    module = type(subject.cloud).__module__.rpartition(".")[0]
    missing = getattr(sys.modules.get(module), "missing", lambda: None)
    found, context = subject.fetcher(), subject.fetch_context()
    with subject.relay.noted() as sent:
        ready, lacks = "" if found is None else found.ready(context), missing()
    assert ready == "", f"the fetcher with credentials: expected to be ready, got {ready!r}"
    assert lacks is None, f"with credentials: expected nothing missing, got {lacks}"
    before = {name: os.environ.pop(name) for name in subject.credentials}
    try:
        with subject.relay.noted() as more:
            said = missing()
            if found is not None:
                found.ready(context)
    finally:
        os.environ.update(before)
    assert sent + more == [], f"a request was sent: {sent + more}"
    needs(
        said is not None, "credentials may be elsewhere, too: `missing` says nothing without them"
    )


@check
def a_poll_that_fails_decides_nothing(subject: CloudUnderTest) -> None:
    relay, launch = subject.relay, subject.launch()
    operation = subject.cloud.submit(launch)
    ids = subject.accepted(operation)
    for fault in BROKEN:
        with relay.scripted(lambda *_, fault=fault: fault):
            try:
                result = subject.make().poll(operation)
            except Exception as error:
                subject.cloud.classify(error)  # the engine asks again, whatever it is
                continue
        assert result in (Accepted(ids), Pending()), (
            f"{fault} for a poll: expected an error, got {result}, but {ids} exist"
        )


@check
def a_change_that_fails_says_so(subject: CloudUnderTest) -> None:
    relay, launch = subject.relay, subject.launch()
    (machine,) = subject.running(launch)
    cloud, verbs = subject.cloud, ["terminate"]
    verbs += ["stop"] if cloud.capabilities.stop else []
    for fault in (BROKEN[0], BROKEN[1], RelayFault()):
        for verb in verbs:
            with relay.scripted(lambda *_, fault=fault: fault):
                failure = failure_of(
                    subject, partial(getattr(cloud, verb), [machine.id]), f"{verb} got {fault}"
                )
            causes = (Cause.RATE_LIMIT, Cause.TRANSIENT, Cause.UNKNOWN_OUTCOME)
            expect_cause(failure, *causes, what=f"{verb} got {fault}")
    verbs += ["start"] if cloud.capabilities.stop else []
    for fault in DENIED:
        for verb in verbs:
            with relay.scripted(lambda *_, fault=fault: fault):
                failure_of(subject, partial(getattr(cloud, verb), [machine.id]), f"{verb}, {fault}")
    with relay.unreachable():
        for verb in verbs:
            failure = failure_of(
                subject, partial(getattr(subject.make(), verb), [machine.id]), f"{verb}, no way"
            )
            expect_cause(failure, Cause.TRANSIENT, what=f"{verb} without a connection")
    assert [i.id for i in subject.alive(launch.owner)] == [machine.id]


@check
def what_hinders_one_machine_hinders_no_other(subject: CloudUnderTest) -> None:
    """One id that is gone, or whose request fails, keeps no other from being ended."""
    relay, launch = subject.relay, subject.launch()
    ended, first, *machines = (subject.running(subject.launch())[0].id for _ in range(4))
    subject.cloud.terminate([ended])
    subject.gone(launch.owner, [ended])
    subject.cloud.terminate([ended, first])
    subject.gone(launch.owner, [first])

    def names(asked: RelayedRequest, machine: str) -> bool:
        own = machine.rpartition("/")[2]  # of an id that has its place in front, `REGION/ID`
        return re.search(rf"\b{re.escape(own)}\b", asked.readable) is not None

    def spoil(_: int, asked: RelayedRequest) -> RelayFault | None:
        named = [one for one in machines if names(asked, one)]
        return BROKEN[0] if asked.method != "GET" and named == machines[:1] else None

    with relay.scripted(spoil), contextlib.suppress(Exception):
        subject.cloud.terminate(machines)
    subject.gone(launch.owner, machines[1:])
    subject.cloud.terminate(machines)
    subject.gone(launch.owner, machines)


@check
def to_end_nothing_asks_nothing(subject: CloudUnderTest) -> None:
    relay, launch = subject.relay, subject.launch()
    (machine,) = subject.running(launch)
    with relay.noted() as sent:
        subject.cloud.terminate([])
    assert [one for one in sent if one.method not in ("GET", "HEAD")] == [], (
        "`terminate` of no machine sent a change; some services take an empty list for all"
    )
    assert [i.id for i in subject.alive(launch.owner)] == [machine.id]


@check
def a_create_that_failed_is_refused_in_words(subject: CloudUnderTest) -> None:
    """Also where the cloud leaves out its reason, or the machine that never came up."""
    launch = subject.launch()
    with _noted(subject) as told:
        operation = subject.cloud.submit(launch)
        (machine,) = subject.accepted(operation)
    ids = {name for name, text in told if text in (machine, machine.rpartition("/")[2])}
    subject.cloud.terminate([machine])
    subject.gone(launch.owner, [machine])
    _polled(subject, operation, "a machine that is gone")
    for state in subject.failed_states:
        _fails_in_words(subject, state)
    for cause in [one for one in COMMON if one in subject.causes]:
        with subject.relay.rewritten(lambda status, body: b"{}" if status >= 400 else body):
            _refused_in_words(subject, cause, "without anything")
        with _noted(subject) as told:
            words = _refused_in_words(subject, cause, "as it is")
        reasons = {
            name
            for name, text in told
            if " " in text and (text[:SAME] in words or words[:SAME] in text)
        }
        needs(reasons, "its refusals are no JSON with the words of the failure")
        for names, value in product((reasons, ids, reasons | ids), (None, "", "nothing")):
            change = partial(_leave_out, reasons=reasons, names=names, value=value)
            with changed(subject.relay, change):
                _refused_in_words(subject, cause, f"whose {sorted(names)} are {value!r}")


def _fails_in_words(subject: CloudUnderTest, state: str) -> None:
    """Show a machine in a state in which it never came up."""
    operation = subject.cloud.submit(subject.launch())
    (machine,) = subject.accepted(operation)
    needs(subject.show_state(machine, state), "`show_state` returns False")
    if isinstance(_polled(subject, operation, f"a machine in {state!r}"), Refused):
        return
    for one in subject.cloud.list("owner-1"):
        is_told = one.state is not InstanceState.RUNNING and (one.reason or one.failure)
        assert one.id != machine or is_told, (
            f"a machine in {state!r}: expected a refusal by `poll`, or a machine that does not run"
            f" and says why, got {one}"
        )


def _polled(subject: CloudUnderTest, operation: CreateOperation, what: str) -> PollResult:
    """Ask for a create by its operation, and by its token alone."""
    for asked in (CreateOperation(operation.cloud, operation.token, "forgotten"), operation):
        try:
            result = subject.make().poll(asked)
        except Exception as error:
            raise AssertionError(
                f"{what}: expected an outcome from `poll`, got {error!r}"
            ) from error
        assert not isinstance(result, Refused) or result.failure.message.strip(), (
            f"{what}: expected words in {result}"
        )
    return result


def _refused_in_words(subject: CloudUnderTest, cause: Cause, how: str) -> str:
    """Refuse a create, with an answer that is changed so; return the words of the failure."""
    subject.refuse(cause)
    try:
        words = refusal(subject, subject.launch()).message
    except Exception as error:
        raise AssertionError(f"a refusal for {cause}, {how}: got {error!r}") from error
    assert words.strip(), f"a refusal for {cause}, {how}: expected words"
    return words


@contextlib.contextmanager
def _noted(subject: CloudUnderTest) -> Iterator[list[tuple[str, str]]]:
    """Yield the fields with texts of all documents that the cloud answers in this block."""
    told: list[tuple[str, str]] = []
    with changed(subject.relay, lambda document: told.extend(_texts(document))):
        yield told


def _texts(document: Any) -> Iterator[tuple[str, str]]:
    for one in objects(document):
        for name, value in one.items():
            texts = value if isinstance(value, list) else [value]
            yield from ((name, text) for text in texts if isinstance(text, str))


def _leave_out(document: Any, *, reasons: set[str], names: set[str], value: str | None) -> None:
    """Leave out these fields of a document that tells the reason of a refusal."""
    if any(name in reasons and " " in text for name, text in _texts(document)):
        for one in [*objects(document)]:
            for name in names & one.keys():
                one.update({name: value}) if value != "nothing" else one.pop(name)
