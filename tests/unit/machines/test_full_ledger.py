"""A ledger that cannot be written while work is given to a running cluster: nothing runs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tunnel_world import SPEC, TunnelWorld, until

from nbprov import api
from nbprov.machines.setup.setup_jobs import SetupFailed
from nbprov.model.errors import EndUnrecorded, LedgerError
from nbprov.provisioning.live_cluster import agent_of
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.agent.messages import GuardState

pytestmark = pytest.mark.machine

STEPS = """
setup: echo setup >> ~/ran
run: echo run >> ~/ran
"""


@contextmanager
def full(world: TunnelWorld) -> Iterator[None]:
    """Have SQLite refuse every write, as where its disk is full."""
    connection = world.session.engine.ledger.store._connection
    connection.execute("PRAGMA query_only = 1")
    try:
        yield
    finally:
        connection.execute("PRAGMA query_only = 0")


def again(world: TunnelWorld, rest: str) -> api.Cluster:
    """Run the cell of a running cluster again, with more in its spec."""
    found = world.session.provision(SPEC % "" + rest, "dev")
    assert isinstance(found, api.Cluster)
    return found


def run_id(cluster: api.Cluster) -> str:
    return cluster._row().run_id


def kinds(world: TunnelWorld, dev: api.Cluster) -> Callable[[], list[str]]:
    return lambda: [job["kind"] for job in world.session.engine.ledger.jobs.of_run(run_id(dev))]


def test_a_job_that_cannot_be_written_down_is_queued_once_and_said(world: TunnelWorld) -> None:
    dev = world.up()
    with full(world):
        job = dev.submit("echo paid >> ~/charged", name="train")
        assert "train-1 is queued on dev and not written down yet: the ledger" in job.remark
        assert job.remark in repr(job)
        assert job.wait(60).exit_code == 0
        assert kinds(world, dev)() == []
    until(kinds(world, dev), "the monitor writes it down once it can")
    assert [job.id for job in dev.jobs()] == ["train-1"]
    assert dev.bash("cat ~/charged").text == "paid\n"
    assert not dev.submit("true").remark


def test_logs_are_kept_before_an_end_that_cannot_be_written_down(world: TunnelWorld) -> None:
    dev = world.up()
    run, archive = run_id(dev), world.session.services.archive.store
    with full(world):
        dev.submit("echo result", name="train").wait(60)
        with pytest.raises(EndUnrecorded):
            dev.down().wait(60)
        assert archive.log(run, "train-1") == "result\n"


def test_a_set_up_that_cannot_be_written_down_is_done_once_and_said(world: TunnelWorld) -> None:
    world.up()
    dev = again(world, STEPS)
    heard: list[str] = []
    with full(world):
        setup = dev.set_up()
        setup.listen(lambda text, line: heard.append(text))
        setup.wait(60)
        assert dev.wait_job("run", 60) == 0
    assert any("setup goes on, and is not written down yet: the ledger" in h for h in heard), heard
    assert any("how its set-up ended is not written down" in h for h in heard), heard
    until(lambda: {"setup", "run"} <= {*kinds(world, dev)()}, "the monitor writes them down")
    assert dev.bash("cat ~/ran").text == "setup\nrun\n"


def test_a_set_up_that_fails_says_why_with_a_full_ledger_too(world: TunnelWorld) -> None:
    world.up()
    dev = again(world, "\nsetup: exit 7\n")
    with full(world), pytest.raises(SetupFailed, match="setup ended with code 7"):
        dev.set_up().wait(60)


def lifetime_left(dev: api.Cluster, world: TunnelWorld) -> float:
    """Return what the agent itself says of its guard on the lifetime."""
    live = world.session.engine.live[run_id(dev)]
    told = world.session.engine.thread.call(agent_of(live.head).status()).result(60)
    return next(guard.left or 0.0 for guard in told.guards if guard.guard == "lifetime")


def test_guards_that_cannot_be_written_down_are_not_sent(world: TunnelWorld) -> None:
    dev = world.up(rest="\nmax_lifetime: 9h\n")
    with full(world):
        with pytest.raises(LedgerError, match="cannot be written"):
            again(world, "\nmax_lifetime: 2h\n")
        assert lifetime_left(dev, world) > 8 * 3600
    assert "guards of dev changed" in " ".join(again(world, "\nmax_lifetime: 2h\n").remarks)
    assert lifetime_left(dev, world) < 2 * 3600


def test_outputs_that_cannot_be_written_down_change_no_guard(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = world.up(rest="\nmax_lifetime: 9h\n")
    agent = agent_of(world.session.engine.live[run_id(dev)].head)
    told: list[GuardConfig] = []
    send = agent.set_guards

    async def noted(guards: GuardConfig) -> tuple[GuardState, ...]:
        told.append(guards)
        return await send(guards)

    monkeypatch.setattr(agent, "set_guards", noted)
    with full(world), pytest.raises(LedgerError, match="cannot be written"):
        again(world, "\noutputs: [out]\n")
    assert not told
    assert "outputs of dev are changed" in " ".join(again(world, "\noutputs: [out]\n").remarks)
    assert told[0].hold_seconds > 0


def test_a_look_at_the_guards_needs_no_ledger(world: TunnelWorld) -> None:
    dev = world.up(rest="\nmax_lifetime: 9h\n")
    with full(world):
        assert [guard.guard for guard in dev.guards().guards] == ["lifetime"]
