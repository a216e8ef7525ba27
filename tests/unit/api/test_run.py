"""Runs that are interrupted or cannot begin, and clouds that fail while others are asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import nbprov
from nbprov import api
from nbprov.api.errors import CloudTrouble
from nbprov.api.launching import provision_service
from nbprov.api.steps import Steps
from nbprov.clouds import registry
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import Unreachable
from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult
from nbprov.provisioning.run.unavailable import Unavailable

SPEC = "resources: {cpus: 2, infra: local}"
GPU = "resources: {accelerators: A100, infra: local}"


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


def stocked_market(home: Path, fault: str = "") -> None:
    """Give every place of `local` room for eight machines, and a fault if one is given."""
    market = home / "local" / "market.toml"
    market.parent.mkdir(parents=True, exist_ok=True)
    text = (files("nbprov.clouds.local.daemon") / "market.toml").read_text(encoding="utf-8")
    text = text.replace("left = 0", "left = 8").replace("limit = 0", "limit = 8")
    market.write_text(text + fault)


def unavailable(session: api.Session, home: Path) -> api.Run:
    """A run that found no stock anywhere."""
    stocked_market(home, '\n[[faults]]\ndo = "refuse"\ncode = "InsufficientCapacity"\n')
    run = session.provision(GPU, "dev", race=1)
    assert isinstance(run, api.Run)
    with pytest.raises(Unavailable):
        run.launch().wait(60)
    return run


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


def test_a_run_that_found_no_stock_is_launched_again_and_tries_the_same_places(
    session: api.Session, nbprov_home: Path
) -> None:
    """Its own blocks do not keep it away, and what was agreed to holds."""
    run = unavailable(session, nbprov_home)
    tried = [attempt.candidate.offer.zone for attempt in run.view().attempts]
    assert len(tried) > 1
    stocked_market(nbprov_home)
    again = session.provision_again(run)
    assert isinstance(again, api.Run)
    assert again.launched
    cluster = again.wait(120)
    assert cluster.view().candidate is not None
    assert again.view().attempts[0].candidate.offer.zone == tried[0]
    assert session.runs["dev"] is again
    cluster.down().wait(60)


def test_a_run_that_found_no_stock_is_launched_again_and_waits_for_some(
    session: api.Session, nbprov_home: Path
) -> None:
    """Its cell, executed once more, still names the same launch."""
    again = session.provision_again(unavailable(session, nbprov_home), wait=600.0)
    assert isinstance(again, api.Run)
    assert any(note.startswith("wait: ") for note in again.view().notes)
    end = time.monotonic() + 60
    while again.state is not RunState.WAITING:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert session.provision(GPU, "dev", race=1) is again
    again.cancel()


def test_a_wait_that_was_asked_for_once_is_not_in_the_launch_after_it(
    session: api.Session, nbprov_home: Path
) -> None:
    again = session.provision_again(unavailable(session, nbprov_home), wait=600.0)
    assert isinstance(again, api.Run)
    again.cancel()
    again.settled(60)
    third = session.provision_again(again)
    assert isinstance(third, api.Run)
    with pytest.raises(Unavailable):
        third.wait(60)
    assert third.state is RunState.FAILED


def test_a_run_that_nobody_launched_waits_for_launch_again(session: api.Session) -> None:
    run = run_of(session)
    run.cancel()
    again = session.provision_again(run)
    assert isinstance(again, api.Run)
    assert again.state is RunState.PLANNED
    assert not again.launched


def test_runs_that_are_over_are_forgotten_but_for_the_newest(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has them all; a kernel that lives for weeks does not keep their plans."""
    monkeypatch.setattr(provision_service, "KEPT_RUNS", 1)
    for name in ("one", "two", "one", "three", "four"):
        made = session.provision(SPEC, name)
        assert isinstance(made, api.Run)
        made.cancel()
    assert list(session.runs) == ["three", "four"]


def test_an_alternative_that_a_cloud_refuses_leaves_its_machines_to_the_next(
    session: api.Session, nbprov_home: Path
) -> None:
    """Both alternatives ask for the same machines and differ in what the cloud refuses."""
    stocked_market(
        nbprov_home, '\n[[faults]]\ndo = "refuse"\ncode = "InvalidParameter"\nfirst = 1\n'
    )
    spec = """
    resources:
      accelerators: A100
      infra: local
      ordered: [{ports: 8888}, {ports: 8889}]
    """
    run = session.provision(spec, "dev", race=1)
    assert isinstance(run, api.Run)
    assert {candidate.request.index for candidate in run.plan.candidates} == {0}
    cluster = run.launch().wait(120)
    refused, kept = run.view().attempts
    assert refused.failure is not None
    assert refused.failure.cause is Cause.BAD_REQUEST
    assert (refused.candidate.request.index, kept.candidate.request.index) == (0, 1)
    assert kept.candidate.offer.key == refused.candidate.offer.key
    cluster.down().wait(60)
