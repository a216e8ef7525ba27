"""Machines that do not answer: who logs in, when this computer is let in again, and where a machine is looked for."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from engine_world import EngineWorld
from odd_clouds import GatedCloud
from provisioning_samples import instance

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ssh_ingress import KNOCK_EVERY, Door
from nbprov.remote.errors import SshCode, SshError
from nbprov.remote.ssh import connection
from nbprov.runtime.clocks import ManualClock
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


@pytest.fixture
def gated(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Engine, GatedCloud]]:
    """An engine on a cloud whose machines are behind a shut gate, and the cloud."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    engine = world.engine(GatedCloud)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, GatedCloud)
    yield engine, cloud
    cloud.gate.close()


def test_this_computer_is_let_in_while_a_new_machine_is_silent(
    world: EngineWorld, gated: tuple[Engine, GatedCloud]
) -> None:
    engine, cloud = gated
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert cloud.admitted == [tuple(engine.ledger.launches.ids_of(driver.attempts()[0].token))], (
        "once, though several tries were in vain"
    )


def test_and_again_when_a_connection_is_lost_and_nobody_answers(
    world: EngineWorld, gated: tuple[Engine, GatedCloud]
) -> None:
    engine, cloud = gated
    cloud.gate.open()
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert cloud.admitted == [], "never while all goes well"
    live = wait_for(driver.ready, 60)
    cloud.gate.shut()

    async def ask() -> Any:
        assert live.head.agent is not None
        return await live.head.agent.status()

    assert world.do(engine, ask()).ending is None
    assert len(cloud.admitted) == 1


def test_a_machine_that_refuses_connections_needs_nobody_to_be_let_in(world: EngineWorld) -> None:
    refused = SshError(SshCode.NOT_UP, "no")
    refused.__cause__ = ConnectionRefusedError()
    no_route, unknown_key = SshError(SshCode.NOT_UP, "no"), SshError(SshCode.HOST_KEY, "no")
    no_route.__cause__ = OSError(113, "No route to host")
    silent = SshError(SshCode.TIMEOUT, "no")
    assert [connection.is_silence(e) for e in (refused, unknown_key, no_route, silent)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_machine_that_moved_is_found_where_the_list_shows_it(
    world: EngineWorld, gated: tuple[Engine, GatedCloud]
) -> None:
    engine, cloud = gated
    cloud.gate.open()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    live = wait_for(driver.ready, 60)
    before = live.head.instance.port
    cloud.gate.close()
    cloud.gate.port, cloud.gate.is_open = 0, False
    cloud.gate.shut()
    cloud.gate.open()
    world.until(
        lambda: (
            engine.ledger.instances.of_launch(driver.attempts()[0].token)[0].port == cloud.gate.port
        ),
        "the watcher sees the new port",
    )

    async def ask() -> Any:
        assert live.head.agent is not None
        return await live.head.agent.status()

    assert world.do(engine, ask()).ending is None
    assert live.head.instance.port == cloud.gate.port != before


@pytest.mark.parametrize(
    ("user", "state"),
    [(getpass.getuser(), AttemptState.READY), ("nbprov-nobody", AttemptState.GONE)],
)
def test_the_login_is_the_one_the_cloud_names(
    world: EngineWorld, gated: tuple[Engine, GatedCloud], user: str, state: AttemptState
) -> None:
    engine, cloud = gated
    cloud.user = user
    cloud.gate.open()
    driver = world.launch(engine, world.prepare(engine))
    if state is AttemptState.READY:
        assert world.finish(driver) is RunState.READY
        return
    world.until(lambda: driver.attempts() and driver.attempts()[0].failure, "the refusal")
    failure = driver.attempts()[0].failure
    assert failure is not None
    assert failure.code == SshCode.AUTH.value
    assert "user nbprov-nobody" in failure.message
    engine.thread.soon(driver.cancel)
    world.finish(driver)


class _Counting(LocalCloud):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.error: Exception | None = None

    def admit(self, ids: Any) -> bool:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return True


def _door(cloud: LocalCloud, clock: ManualClock, listed: Any = tuple) -> Door:
    return Door(AsyncCloud(cloud), ["i-1"], clock, listed)


async def _knocked(door: Door) -> None:
    door.knock()
    if door._task is not None:
        await door._task


@pytest.mark.parametrize(
    "error", [None, CloudError(Failure(Cause.PERMISSION, "no")), OSError("odd")]
)
def test_a_cloud_is_asked_once_in_thirty_seconds_whatever_it_answers(
    clock: ManualClock, error: Exception | None
) -> None:
    cloud = _Counting()
    cloud.error = error

    async def story() -> list[int]:
        door, asked = _door(cloud, clock), []
        for pause in (0.0, KNOCK_EVERY - 1, 1.0, 0.0):
            clock.advance(pause)
            await _knocked(door)
            asked.append(cloud.asked)
        door.close()
        return asked

    assert asyncio.run(story()) == [1, 1, 2, 2]


def test_a_cloud_without_doors_is_never_asked(clock: ManualClock) -> None:
    cloud = AsyncCloud(LocalCloud())
    assert asyncio.run(cloud.admit(["i-1"])) is False
    assert not cloud._workers._threads


def test_where_a_machine_is_stays_as_it_was_known_if_no_list_tells(clock: ManualClock) -> None:
    known = instance("t")
    assert (
        _door(_Counting(), clock, lambda: [replace(known, host="", port=0)]).where(known) is known
    )
    assert _door(_Counting(), clock, lambda: [replace(known, port=2222)]).where(known).port == 2222

    def fails() -> list[Instance]:
        raise OSError("a full disk")

    assert _door(_Counting(), clock, fails).where(known) is known
