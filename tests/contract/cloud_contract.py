"""The contract of `nbprov/clouds/base.py` as checks; `CHECKS` lists them all.

Each check takes a new `CloudUnderTest`.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from clouds_under_test import SCRIPTED, CloudUnderTest, eventually

from nbprov.clouds.base import CHECK_SECONDS
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    OnShutdown,
    Refused,
)
from nbprov.model.places import Market

Check = Callable[[CloudUnderTest], None]
CHECKS: list[Check] = []

SLACK = 20.0
"""Seconds that a busy machine may add to the limit of a call: far less than a hung server would."""

OUTLIVER = (
    "nohup setsid sleep 4242 >/dev/null 2>&1 </dev/null & (setsid env -i /bin/sleep "
    "4243 >/dev/null 2>&1 </dev/null &) ; true"
)
"""A command that leaves processes outside any session, one of them without the machine's
environment."""


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def answers(instance: Instance) -> bool:
    """Whether an ssh server answers at the instance's address."""
    try:
        with socket.create_connection((instance.host, instance.port), 2) as link:
            return link.recv(64).startswith(b"SSH-2.0")
    except OSError:
        return False


def refusal(subject: CloudUnderTest, launch: Launch) -> Failure:
    """Return the cause of a refusal, at once or later."""
    try:
        result = subject.decided(subject.cloud.submit(launch))
    except CloudError as error:
        return error.failure
    assert isinstance(result, Refused), f"not refused: {result}"
    return result.failure


@check
def says_whether_it_can_be_used(subject: CloudUnderTest) -> None:
    told = subject.cloud.check()
    assert told.enabled
    assert told.problem is None
    assert told.cloud == subject.cloud.name
    assert told.account


@check
def a_machine_lives_and_ends(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    offer = launch.candidate.offer
    assert (machine.cloud, machine.token, machine.owner, machine.node) == (
        subject.cloud.name,
        launch.token,
        launch.owner,
        0,
    )
    assert (machine.place, machine.instance_type, machine.spot) == (
        offer.place,
        offer.instance_type,
        False,
    )
    eventually(lambda: answers(machine), "an ssh server")
    said = subject.run(machine, 'echo "here $NBPROV_NODE"; pwd; exit 7')
    assert said.returncode == 7, said.stderr
    assert said.stdout.startswith("here 0\n")
    subject.cloud.terminate([machine.id])
    subject.gone(launch.owner, [machine.id])
    assert not answers(machine)
    assert subject.traces([machine.id]) == []


@check
def a_repeated_token_makes_nothing_new(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    first = subject.accepted(subject.cloud.submit(launch))
    again = subject.accepted(subject.make().submit(replace(launch, answer_by=time.time() + 60)))
    assert again == first
    assert [i.id for i in subject.alive(launch.owner)] == list(first)


@check
def a_repeat_at_the_same_instant_makes_nothing_new(subject: CloudUnderTest) -> None:
    if not subject.cloud.capabilities.replayable:
        return  # such a create is never sent twice; the listing is used instead
    launch = subject.launch()
    with ThreadPoolExecutor(6) as pool:
        operations = list(pool.map(lambda _: subject.make().submit(launch), range(6)))
    assert len({subject.accepted(o) for o in operations}) == 1
    assert len(subject.alive(launch.owner)) == 1


@check
def a_token_with_other_parameters_is_refused(subject: CloudUnderTest) -> None:
    if not (subject.cloud.capabilities.replayable and subject.cloud.capabilities.multi_node):
        return
    launch = subject.launch()
    first = subject.accepted(subject.cloud.submit(launch))
    failure = refusal(subject, replace(launch, count=2))
    assert failure.cause is Cause.BAD_REQUEST
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
def an_owner_sees_only_their_own(subject: CloudUnderTest) -> None:
    mine, theirs = subject.launch(owner="owner-1"), subject.launch(owner="owner-2")
    (one,), (other,) = subject.running(mine), subject.running(theirs)
    assert {i.id for i in subject.cloud.list("owner-1")} == {one.id}
    assert {i.id for i in subject.cloud.list("owner-2")} == {other.id}
    assert subject.cloud.list("owner-3") == []
    assert subject.make().list("owner") == []


@check
def ending_twice_and_ending_nothing_is_silent(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    for _ in range(2):
        subject.cloud.terminate([machine.id, "i-000000000000"])
    subject.gone(launch.owner, [machine.id])
    subject.cloud.terminate([machine.id])
    subject.cloud.terminate([])
    if subject.cloud.capabilities.stop:
        subject.cloud.stop([machine.id, "i-000000000000"])
        with pytest.raises(CloudError) as raised:
            subject.cloud.start([machine.id])
        assert raised.value.failure.cause is Cause.NOT_OFFERED


@check
def gone_means_gone(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    subject.end_slowly(0.4)
    subject.cloud.terminate([machine.id])
    subject.gone(launch.owner, [machine.id])
    assert not answers(machine), "the listing said gone while the machine still ran"
    assert subject.traces([machine.id]) == []


@check
def a_young_machine_that_is_not_listed_yet_is_not_gone(subject: CloudUnderTest) -> None:
    subject.hide_young(0.5)
    launch = subject.launch()
    (made,) = subject.accepted(subject.cloud.submit(launch))
    seen: list[InstanceState] = []

    def shown() -> bool:
        seen.extend(i.state for i in subject.cloud.list(launch.owner))
        return bool(seen)

    eventually(shown, "a listing")
    assert InstanceState.GONE not in seen
    subject.in_state(launch.owner, made, InstanceState.RUNNING)


@check
def a_stopped_machine_keeps_its_disk_and_starts_again(subject: CloudUnderTest) -> None:
    if not subject.cloud.capabilities.stop:
        for call in (subject.cloud.start, subject.cloud.stop):
            with pytest.raises(CloudError) as raised:
                call(["i-000000000000"])
            assert raised.value.failure.cause is Cause.BAD_REQUEST
        return
    launch = subject.launch()
    (machine,) = subject.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    assert subject.run(machine, f"echo kept > word; {OUTLIVER}").returncode == 0
    subject.cloud.stop([machine.id])
    stopped = subject.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    assert not stopped.state.is_billed
    assert not answers(machine)
    subject.cloud.stop([machine.id])
    subject.cloud.start([machine.id])
    again = subject.in_state(launch.owner, machine.id, InstanceState.RUNNING)
    eventually(lambda: answers(again), "an ssh server")
    said = subject.run(again, "cat word; pgrep -x sleep")
    assert said.stdout == "kept\n"


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
        failure = refusal(
            subject, subject.launch(market=Market.SPOT if cause is Cause.SPOT else Market.ON_DEMAND)
        )
        assert failure.cause is cause
        assert failure.message
        if cause is Cause.RATE_LIMIT and subject.tells_retry_after:
            assert failure.retry_after == 3.0
    assert (Cause.SPOT in subject.causes) == subject.cloud.capabilities.spot
    assert subject.cloud.list("owner-1") == []


@check
def a_passing_fault_may_be_repeated_with_its_token(subject: CloudUnderTest) -> None:
    subject.refuse(Cause.TRANSIENT)
    launch = subject.launch()
    assert refusal(subject, launch).cause is Cause.TRANSIENT
    assert len(subject.accepted(subject.cloud.submit(launch))) == 1


@check
def an_unknown_operation_is_answered_from_the_listing(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    ids = subject.accepted(subject.cloud.submit(launch))
    assert subject.make().poll(
        CreateOperation(subject.cloud.name, launch.token, "forgotten")
    ) == Accepted(ids)
    assert isinstance(
        subject.cloud.poll(CreateOperation(subject.cloud.name, uuid.uuid4().hex, "never")), Refused
    )


@check
def all_or_none(subject: CloudUnderTest) -> None:
    if not subject.cloud.capabilities.multi_node:
        assert refusal(subject, subject.launch(count=2)).cause is Cause.BAD_REQUEST
        assert subject.cloud.list("owner-1") == []
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
    if not subject.cloud.capabilities.replaces_nodes:
        return
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
def secrets_stay_out_of_what_is_kept_and_shown(subject: CloudUnderTest) -> None:
    canary = f"canary-{uuid.uuid4().hex}"
    launch = subject.launch()
    template = launch.user_data_template + ': "@@secret@@"\n'
    launch = replace(
        launch,
        user_data_template=template,
        template_values={**launch.template_values, "secret": canary},
    )
    subject.lose_answer()
    with pytest.raises(CloudError) as lost:
        subject.cloud.submit(launch)
    operation = subject.cloud.submit(launch)
    (machine,) = subject.accepted(operation)
    shown = subject.in_state(launch.owner, machine, InstanceState.RUNNING)
    eventually(lambda: answers(shown), "an ssh server")
    told = f"{operation}{shown}{launch}{lost.value}"
    told += f"{subject.cloud.console(machine)}{subject.cloud.check()}"
    for word in (canary, launch.template_values["host_key"].splitlines()[1]):
        assert word not in told
        for name, content in subject.written().items():
            assert word.encode() not in content, name


@check
def nothing_outlives_its_machine(subject: CloudUnderTest) -> None:
    if subject.cloud.capabilities.multi_node:
        launch = subject.launch(count=2)
        machines = subject.running(launch)
    else:
        launch = subject.launch()
        machines = [
            replace(*subject.running(launch), node=0),
            replace(*subject.running(subject.launch()), node=1),
        ]
    first, second = sorted(machines, key=lambda m: m.node)
    for machine in machines:
        eventually(lambda m=machine: answers(m), "an ssh server")
        assert subject.run(machine, OUTLIVER).returncode == 0
        assert len(subject.traces([machine.id])) > 1
    subject.cloud.terminate([first.id])
    subject.gone(launch.owner, [first.id])
    assert subject.traces([first.id]) == []
    assert subject.run(second, "pgrep -x sleep | wc -l").stdout.strip() != "0"
    subject.cloud.terminate([second.id])
    subject.gone(launch.owner, [second.id])
    assert subject.traces([second.id]) == []


@check
def a_machine_powers_itself_off(subject: CloudUnderTest) -> None:
    command, can = subject.cloud.capabilities.poweroff, subject.cloud.capabilities
    if not can.poweroff_ends_bill:
        return
    if can.stop:
        stays = subject.launch(on_shutdown=OnShutdown.STOP)
        (machine,) = subject.running(stays)
        eventually(lambda: answers(machine), "an ssh server")
        subject.run(machine, command.format(mode="stop", reason="'idle for 60 min'"))
        stopped = subject.in_state(stays.owner, machine.id, InstanceState.STOPPED)
        assert "idle for 60 min" in stopped.reason or not subject.tells_poweroff_reason
    ends = subject.launch()
    (machine,) = subject.running(ends)
    eventually(lambda: answers(machine), "an ssh server")
    subject.run(machine, command.format(mode="terminate", reason="'budget spent'"))
    subject.gone(ends.owner, [machine.id])
    shown = [i for i in subject.cloud.list(ends.owner) if i.id == machine.id]
    assert all("budget spent" in i.reason for i in shown) or not subject.tells_poweroff_reason
    assert all(i.by_itself for i in shown) or not can.replaces_nodes, (
        "nobody took it away, so nothing is to take its place"
    )
    assert subject.traces([machine.id]) == []


@check
def the_clouds_own_timer_ends_a_machine(subject: CloudUnderTest) -> None:
    if not subject.cloud.capabilities.own_timer:
        return
    launch = subject.launch(terminate_after=0.3)
    ids = subject.accepted(subject.cloud.submit(launch))
    subject.gone(launch.owner, ids)
    assert subject.traces(ids) == []


@check
def a_price_is_asked_again(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    before = subject.cloud.quote(launch.candidate)
    if before is None:
        return
    assert before.hourly == launch.candidate.offer.hourly
    subject.change_price(1.5)
    after = subject.cloud.quote(launch.candidate)
    assert after is not None
    assert after.hourly == round(before.hourly * 1.5)


@check
def what_is_left_beside_machines_is_told(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    ids = subject.accepted(subject.cloud.submit(launch))
    subject.cloud.terminate(ids)
    subject.gone(launch.owner, ids)
    assert [o for o in subject.cloud.side_objects(launch.owner) if not o.shared] == []


@check
def a_state_nobody_knows_is_unknown_and_billed(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    if not subject.odd_state(machine.id):
        return
    (shown,) = [i for i in subject.cloud.list(launch.owner) if i.id == machine.id]
    assert shown.state is InstanceState.UNKNOWN
    assert shown.state.is_billed


@check
def ports_are_opened_and_closed_as_often_as_one_likes(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    calls = (subject.cloud.open_ports, subject.cloud.close_ports)
    for call in (calls[0], *calls, calls[1]):
        if subject.cloud.capabilities.ports:
            call([machine.id], [(8888, 8890)])
        else:
            with pytest.raises(CloudError):
                call([machine.id], [(8888, 8890)])


@check
def no_call_takes_longer_than_it_says(subject: CloudUnderTest) -> None:
    if not subject.hang(60.0):
        return
    started = time.monotonic()
    assert not subject.cloud.check().enabled
    assert time.monotonic() - started < CHECK_SECONDS + SLACK
