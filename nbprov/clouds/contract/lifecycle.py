"""Checks of machines that are made, stopped, started and ended."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest

from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, OnShutdown

from .checks import OUTLIVER, answers, check, expect_cause, needs
from .subject import CloudUnderTest, eventually

START = 20.0
"""Seconds after which an accepted start counts as lost; doubles take well under one."""
CLOCKS = 3600.0
"""How far the clock of a cloud may be from ours: a time zone or a unit is further away."""


@check
def a_machine_lives_and_ends(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    began = time.time()
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
    assert not machine.launched_at or abs(machine.launched_at - began) < CLOCKS, (
        f"launched_at is {machine.launched_at}: expected seconds since 1970, about {began:.0f}"
    )
    assert not machine.stopped_at, f"it runs and has a stopped_at of {machine.stopped_at}"
    eventually(lambda: answers(machine), "an ssh server")
    said = subject.run(machine, 'echo "here $NBPROV_NODE"; pwd; exit 7')
    assert said.returncode == 7, said.stderr
    assert said.stdout.startswith("here 0\n")
    subject.cloud.terminate([machine.id])
    subject.gone(launch.owner, [machine.id])
    assert not answers(machine)
    assert subject.traces([machine.id]) == []


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
    subject.end_slowly(0.3)
    subject.cloud.stop([machine.id])
    stopped = subject.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    assert not stopped.stopped_at or abs(stopped.stopped_at - time.time()) < CLOCKS, (
        f"stopped_at is {stopped.stopped_at}: expected seconds since 1970, about now"
    )
    assert not stopped.state.is_billed
    assert not answers(machine)
    subject.cloud.stop([machine.id])
    subject.cloud.start([machine.id])
    again = subject.in_state(launch.owner, machine.id, InstanceState.RUNNING)
    eventually(lambda: answers(again), "an ssh server")
    said = subject.run(again, "cat word; pgrep -x sleep")
    assert said.stdout == "kept\n"


@check
def a_start_that_stock_refuses_says_so(subject: CloudUnderTest) -> None:
    """A start that fails in silence leaves a person waiting for a machine that never comes."""
    needs(subject.cloud.capabilities.stop, "it cannot stop a machine")
    launch = subject.launch()
    (machine,) = subject.running(launch)
    subject.cloud.stop([machine.id])
    subject.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    subject.leave(0)
    try:
        subject.cloud.start([machine.id])
    except Exception as error:
        expect_cause(
            subject.cloud.classify(error), Cause.CAPACITY, what="a start where there is no stock"
        )
        return

    def is_running() -> bool:
        found = [one for one in subject.cloud.list(launch.owner) if one.id == machine.id]
        return any(one.state is InstanceState.RUNNING for one in found)

    eventually(is_running, "a start that raised no error, and its machine runs", within=START)
    pytest.skip(
        "the double started a machine where there is no stock: let it refuse a start as it refuses"
        " a create; if this cloud keeps a stopped machine's place, say so in `does_not_apply`"
    )


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
        eventually(partial(answers, machine), "an ssh server")
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
    needs(can.poweroff_ends_bill, "poweroff_ends_bill is False: only nbprov ends a machine")
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
    needs(subject.cloud.capabilities.own_timer, "own_timer is False")
    launch = subject.launch(terminate_after=0.3)
    ids = subject.accepted(subject.cloud.submit(launch))
    subject.gone(launch.owner, ids)
    assert subject.traces(ids) == []
