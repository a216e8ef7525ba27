"""Runs that are interrupted or cannot begin, and clouds that fail while others are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbprov
from nbprov import api
from nbprov.api.errors import CloudTrouble
from nbprov.api.steps import Steps
from nbprov.clouds import registry
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import Unreachable
from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult

SPEC = "resources: {cpus: 2, infra: local}"


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    try:
        yield nbprov.session()
    finally:
        api.close()
        with contextlib.suppress(Unreachable):  # most of these tests start no cloud
            DaemonClient(nbprov_home / "local").call(
                "shutdown", {"end_machines": True}, timeout=60.0, start=False
            )


def run_of(session: api.Session) -> api.Run:
    made = session.provision(SPEC, "dev")
    assert isinstance(made, api.Run)
    return made


def test_nothing_in_an_interrupt_keeps_the_cancel_from_being_posted(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(session)
    cancelled: list[str] = []
    run._launched = True
    run.driver.context.progress.state = RunState.LAUNCHING
    monkeypatch.setattr(type(run.driver), "cancel", lambda driver: cancelled.append(driver.name))

    def locked(*_: Any) -> Any:
        raise LedgerError("the ledger is locked")

    monkeypatch.setattr(session.engine.ledger.prices, "cost", locked)
    assert run.interrupt().message.startswith("dev: cancelled")

    async def later() -> None:
        """Ends once the engine thread has done all work that it got before."""

    session.engine.thread.call(later()).result(60)
    assert cancelled == ["dev"]


def test_a_launch_that_could_not_begin_is_failed_and_not_under_way(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(session)

    async def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(session.engine, "launch", full)
    with pytest.raises(OSError, match="no space left"):
        run.launch()
    assert (run.launched, run.is_under_way, run.state) == (False, False, RunState.FAILED)
    with pytest.raises(OSError, match="no space left"):
        run.wait(1)


def test_offers_that_cannot_be_told_are_a_readable_error(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise CloudError(Failure(Cause.TIMEOUT, "no answer"))

    monkeypatch.setattr(registry.get("local"), "offers", silent)
    with pytest.raises(CloudTrouble, match="no answer"):
        session.catalog(["local"])


def test_a_sweep_goes_on_over_clouds_that_fail_and_reports_them(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def end_orphans(engine: Any, name: str, report: Any, **_: Any) -> None:
        asked.append(name)
        raise CloudError(Failure(Cause.CREDENTIALS, f"no key for {name}"))

    monkeypatch.setattr("nbprov.provisioning.reconcile.end_orphans", end_orphans)
    session.sweep()
    assert asked == [], (
        "a simulated cloud is not started for a look; the others have no credentials here and"
        " were never launched on"
    )
    (session.engine.home / "local").mkdir()

    def check(names: list[str], fresh: bool) -> Steps[list[CheckResult]]:
        return [CheckResult(name, enabled=True) for name in names]
        yield

    monkeypatch.setattr(session.services.clouds, "check", check)
    lines = session.sweep()
    assert sorted(asked) == list(registry.names())
    assert [line.partition(":")[0] for line in lines] == asked
    assert all(f"no key for {name}" in line for name, line in zip(asked, lines, strict=True))


def test_a_sweep_looks_at_local_where_its_machines_are_in_a_folder_of_their_own(
    session: api.Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def end_orphans(engine: Any, name: str, report: Any, **_: Any) -> None:
        asked.append(name)

    monkeypatch.setattr("nbprov.provisioning.reconcile.end_orphans", end_orphans)
    monkeypatch.setenv("NBPROV_LOCAL_DIR", str(tmp_path))
    session.sweep(end=True)
    assert asked == ["local"]
