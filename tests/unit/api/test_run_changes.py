"""A launch that failed is launched again with a change; one that waits for stock waits longer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

import nbprov
from nbprov import api
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import Unreachable
from nbprov.model.blocks import Block
from nbprov.model.clusters import RunState
from nbprov.model.errors import UsageError
from nbprov.model.failures import Cause
from nbprov.planning import Relaxation
from nbprov.provisioning.run.unavailable import Unavailable

CAPPED = "resources: {accelerators: A100, infra: local, max_price: 3.40}"
EMPTY = '\n[[faults]]\ndo = "refuse"\ncode = "InsufficientCapacity"\n'
SECONDS = 60.0


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    try:
        yield nbprov.session()
    finally:
        api.close()
        with contextlib.suppress(Unreachable):
            DaemonClient(nbprov_home / "local").call(
                "shutdown", {"end_machines": True}, timeout=SECONDS, start=False
            )


def set_market(home: Path, fault: str = "") -> None:
    """Give every place of `local` room for eight machines, and a fault if one is given."""
    market = home / "local" / "market.toml"
    market.parent.mkdir(parents=True, exist_ok=True)
    text = (files("nbprov.clouds.local.daemon") / "market.toml").read_text(encoding="utf-8")
    market.write_text(
        text.replace("left = 0", "left = 8").replace("limit = 0", "limit = 8") + fault
    )


def failed(session: api.Session, home: Path, spec: str = CAPPED) -> api.Run:
    """A launch that found no stock."""
    set_market(home, EMPTY)
    run = session.provision(spec, "dev", race=1)
    assert isinstance(run, api.Run)
    with pytest.raises(Unavailable):
        run.launch().wait(SECONDS)
    set_market(home)
    return run


def change_of(session: api.Session, run: api.Run, field: str) -> Relaxation:
    """What `relax` found for a field of the run's spec."""
    found = session.relax(run.spec)
    assert any(r.field == field and r.offers for r in found), [r.words() for r in found]
    return next(r for r in found if r.field == field and r.offers)


def test_a_change_that_may_cost_more_waits_for_launch(
    session: api.Session, nbprov_home: Path
) -> None:
    run = failed(session, nbprov_home)
    dearer = session.provision_again(run, change=change_of(session, run, "max_price"))
    assert isinstance(dearer, api.Run)
    assert dearer.driver.consent > run.driver.consent
    assert not dearer.launched
    assert dearer.state is RunState.PLANNED
    assert dearer.view().notes[0].startswith("planned with ")


def test_a_change_that_costs_no_more_is_launched_at_once(
    session: api.Session, nbprov_home: Path
) -> None:
    spec = "resources: {accelerators: A100, infra: local/local-north}"
    run = failed(session, nbprov_home, spec)
    change = change_of(session, run, "region")
    again = session.provision_again(run, change=change)
    assert isinstance(again, api.Run)
    assert again.launched, "the other regions cost less"
    note = next(note for note in again.view().notes if note.startswith("launched with "))
    joined = session.provision_again(run, change=change)
    assert joined is again or isinstance(joined, api.Cluster)
    assert again.view().notes.count(note) == 1, "it is said of a new run alone"
    cluster = again.wait(SECONDS)
    assert again.view().attempts[0].candidate.offer.region != "local-north"
    cluster.down().wait(SECONDS)


def test_only_the_blocks_of_its_places_are_cleared(session: api.Session, nbprov_home: Path) -> None:
    run = failed(session, nbprov_home)
    session.engine.clear_blocks()
    now = session.engine.clock.now()
    ours = Block(cloud="local", region="local-south", cause=Cause.UNHEALTHY, since=now)
    other = Block(cloud="aws", cause=Cause.PERMISSION, since=now)
    for block in (ours, other):
        session.engine.ledger.blocks.remember(Block(**{**_fields(block), "expires": now + 600.0}))
    again = session.provision_again(run, change=change_of(session, run, "blocks"))
    assert isinstance(again, api.Run)
    assert again.launched
    assert [block.cloud for block in session.blocks()] == ["aws"]
    again.wait(SECONDS).down().wait(SECONDS)


def _fields(block: Block) -> dict[str, object]:
    return {name: getattr(block, name) for name in Block.__dataclass_fields__}


def test_a_wait_is_prolonged_in_the_launch_and_in_the_ledger(
    session: api.Session, nbprov_home: Path
) -> None:
    set_market(nbprov_home, EMPTY)
    run = session.provision(CAPPED + "\nwait: 10m", "dev", race=1)
    assert isinstance(run, api.Run)
    run.launch()
    end = time.monotonic() + SECONDS
    while run.state is not RunState.WAITING:
        assert time.monotonic() < end
        time.sleep(0.02)
    before = run.view().waiting
    assert before is not None
    run.wait_longer(3600.0)
    after = run.view().waiting
    while after is None or after.until == before.until:
        assert time.monotonic() < end
        time.sleep(0.02)
        after = run.view().waiting
    assert after.until == before.until + 3600.0
    row = session.engine.ledger.runs.get(run.run_id)
    assert row is not None
    assert row.wait_deadline == after.until
    (note,) = (note for note in run.view().notes if note.startswith("wait:"))
    assert "for 1 h 10 min from Launch on" in note
    run.cancel()
    run.settled(SECONDS)
    with pytest.raises(UsageError) as error:
        run.wait_longer(3600.0)
    assert error.value.code == "run.no-wait"
