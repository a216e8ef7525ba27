"""What the ledger remembers: leases, names, launches, clusters, prices, blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock
from provisioning_samples import candidate, instance, launch_row

from nbprov.model.blocks import Block, block_after
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.events import EventKind
from nbprov.model.failures import CHECKED, MINUTE, Cause, Failure
from nbprov.model.launches import CreateOperation, Instance, InstanceState, Launch
from nbprov.model.money import usd
from nbprov.model.offers import Candidate
from nbprov.model.secret import Secret
from nbprov.provisioning.ledger import LEASE_SECONDS, LeaseLost, Ledger, NameTaken
from nbprov.provisioning.ledger.json_codec import from_plain, to_plain
from nbprov.provisioning.ledger.rows import candidate_of, dump

HOUR = 3600.0


def _run(ledger: Ledger, run_id: str = "run-1", name: str = "dev") -> None:
    ledger.runs.open(
        run_id, name, "name: dev", folder="/home/me", race=2, consent=5, state=RunState.LAUNCHING
    )


def _cluster(
    ledger: Ledger,
    *,
    count: int = 1,
    hourly: int = usd(2),
    run_id: str = "run-1",
    token: str = "t1",
    name: str = "dev",
) -> None:
    wanted = candidate(count=count, hourly=hourly)
    _run(ledger, run_id, name)
    ledger.launches.intend(launch_row(token, wanted, run_id=run_id))
    ledger.launches.accepted(token, tuple(f"{token}-{i}" for i in range(count)))
    ledger.instances.seen([instance(token, f"{token}-{i}", node=i) for i in range(count)])
    ledger.clusters.hand_over(run_id, name, run_id, token, wanted)


# ---------------------------------------------------------------- leases


@pytest.fixture
def other(ledger: Ledger, clock: ManualClock) -> Ledger:
    """The same file in the hands of another kernel."""
    return Ledger(ledger.store.path, clock, "kernel-2")


def test_a_lease_is_taken_once_it_has_lapsed(
    ledger: Ledger, other: Ledger, clock: ManualClock
) -> None:
    _run(ledger)
    assert not other.leases.take("run-1")
    clock.advance(LEASE_SECONDS - 0.1)
    assert not other.leases.take("run-1")
    clock.advance(0.1)
    assert other.leases.take("run-1")
    assert not ledger.leases.take("run-1")


def test_every_change_and_every_heartbeat_renews_a_lease(
    ledger: Ledger, other: Ledger, clock: ManualClock
) -> None:
    _run(ledger)
    clock.advance(LEASE_SECONDS - 1)
    ledger.launches.intend(launch_row("t1", candidate()))
    clock.advance(LEASE_SECONDS - 1)
    assert ledger.leases.renew(["run-1"]) == set()
    clock.advance(LEASE_SECONDS - 1)
    assert not other.leases.take("run-1")


def test_a_kernel_that_lost_its_lease_can_write_nothing(
    ledger: Ledger, other: Ledger, clock: ManualClock
) -> None:
    _run(ledger)
    ledger.launches.intend(launch_row("t1", candidate()))
    clock.advance(LEASE_SECONDS)
    assert other.leases.take("run-1")
    row = launch_row("t2", candidate())
    writes = [
        lambda: ledger.launches.intend(row),
        lambda: ledger.launches.intend_again("t1", row.launch),
        lambda: ledger.launches.sent("t1", CreateOperation("aws", "t1", "op")),
        lambda: ledger.launches.accepted("t1", ("i-1",)),
        lambda: ledger.launches.failed("t1", Failure(Cause.CAPACITY), AttemptState.REFUSED),
        lambda: ledger.launches.move("t1", AttemptState.GONE),
        lambda: ledger.clusters.hand_over("run-1", "dev", "run-1", "t1", candidate()),
        lambda: ledger.runs.move("run-1", RunState.FAILED),
    ]
    before = [
        list(map(tuple, other.store.rows(f"SELECT * FROM {t}")))
        for t in ("runs", "launches", "attempts", "clusters", "price_segments")
    ]
    for write in writes:
        with pytest.raises(LeaseLost):
            write()
    after = [
        list(map(tuple, other.store.rows(f"SELECT * FROM {t}")))
        for t in ("runs", "launches", "attempts", "clusters", "price_segments")
    ]
    assert after == before
    assert ledger.leases.renew(["run-1"]) == {"run-1"}


def test_a_lapsed_lease_that_nobody_took_is_still_ones_own(
    ledger: Ledger, clock: ManualClock
) -> None:
    _run(ledger)
    clock.advance(10 * LEASE_SECONDS)
    ledger.launches.intend(launch_row("t1", candidate()))
    assert ledger.leases.renew(["run-1"]) == set()


def test_a_lease_that_was_given_up_is_free_at_once(ledger: Ledger, other: Ledger) -> None:
    _run(ledger)
    _run(ledger, "run-2", "other")
    ledger.leases.release("run-1")
    assert other.leases.take("run-1")
    ledger.leases.release("run-1")
    assert not ledger.leases.take("run-1"), "what is another's cannot be given up"
    ledger.leases.release_all()
    assert other.leases.take("run-2")
    assert not ledger.leases.take("run-1")


# ---------------------------------------------------------------- names and runs


def test_what_a_cluster_is_is_read_out_once_and_a_new_price_is_seen(
    ledger: Ledger, other: Ledger
) -> None:
    _cluster(ledger)
    first, again = ledger.clusters.named("dev"), other.clusters.named("dev")
    assert first is not None
    assert again is not None
    assert first.candidate is again.candidate
    ledger.clusters.reprice(first.cluster_id, candidate(hourly=usd(9)))
    dearer = other.clusters.named("dev")
    assert dearer is not None
    assert (first.candidate.offer.hourly, dearer.candidate.offer.hourly) == (usd(2), usd(9))


def test_a_name_is_free_again_once_its_cluster_has_ended(ledger: Ledger) -> None:
    _cluster(ledger)
    with pytest.raises(NameTaken, match="running"):
        _run(ledger, "run-2")
    ledger.clusters.move("run-1", ClusterState.STOPPED)
    with pytest.raises(NameTaken, match="stopped"):
        _run(ledger, "run-2")
    ledger.clusters.move("run-1", ClusterState.ENDED, "you ended it")
    _run(ledger, "run-2")
    with pytest.raises(NameTaken, match="launching"):
        _run(ledger, "run-3")
    ledger.runs.move("run-2", RunState.FAILED)
    _run(ledger, "run-3")


def test_a_run_has_one_cluster(ledger: Ledger) -> None:
    _cluster(ledger)
    ledger.launches.intend(launch_row("t2", candidate(), number=2))
    with pytest.raises(NameTaken):
        ledger.clusters.hand_over("run-1", "dev", "run-1", "t2", candidate())
    with pytest.raises(NameTaken):
        ledger.clusters.hand_over("another-id", "dev", "run-1", "t2", candidate())
    assert [c.token for c in ledger.clusters.latest()] == ["t1"]


def test_runs_that_somebody_must_look_after(ledger: Ledger) -> None:
    def unfinished() -> list[str]:
        return [row.run_id for row in ledger.runs.unfinished()]

    _cluster(ledger)
    assert unfinished() == []
    ledger.launches.intend(launch_row("t2", candidate(), number=2))
    assert unfinished() == ["run-1"], "a loser beside the cluster"
    ledger.launches.move("t2", AttemptState.GONE)
    assert unfinished() == []
    ledger.clusters.move("run-1", ClusterState.ENDING, "you ended it")
    assert unfinished() == ["run-1"]
    ledger.clusters.move("run-1", ClusterState.ENDED)
    assert unfinished() == []
    assert ledger.launches.live_clouds() == set()
    assert ledger.launches.known(["t1", "t2", "t3"]) == {"t1", "t2"}


def test_a_cancel_stays_written(ledger: Ledger) -> None:
    _run(ledger)
    ledger.runs.request_cancel("run-1")
    row = ledger.runs.get("run-1")
    assert row is not None
    assert row.cancelled


def test_a_create_that_is_sent_again_has_a_new_instant_to_answer_by(ledger: Ledger) -> None:
    _run(ledger)
    row = launch_row("t1", candidate())
    ledger.launches.intend(row)
    ledger.launches.sent("t1", CreateOperation("aws", "t1", "op-1"))
    ledger.launches.failed("t1", Failure(Cause.RATE_LIMIT), AttemptState.UNKNOWN)
    from dataclasses import replace

    ledger.launches.intend_again("t1", replace(row.launch, answer_by=row.launch.answer_by + 60))
    stored = ledger.launches.of_run("run-1")[0]
    assert stored.state is AttemptState.INTENT
    assert stored.deadline == stored.launch.answer_by == row.launch.answer_by + 60
    assert stored.operation is None
    assert len(ledger.store.rows("SELECT * FROM attempts WHERE token = 't1'")) == 2


# ---------------------------------------------------------------- costs


def test_costs_are_whole_micros_from_acceptance_to_the_confirmed_end(
    ledger: Ledger, clock: ManualClock
) -> None:
    _cluster(ledger, count=2, hourly=usd("3.67"))
    assert ledger.prices.cost("run-1") == 0
    assert ledger.prices.hourly_now("t1") == 2 * usd("3.67")
    clock.advance(HOUR)
    assert ledger.prices.cost("run-1") == 2 * usd("3.67")
    clock.advance(1)
    assert ledger.prices.cost("run-1") == 2 * (usd("3.67") + 1020), (
        "3.67 / 3600 is 1019.44 micros, and a cap is never passed by rounding"
    )
    ledger.clusters.move("run-1", ClusterState.ENDED)
    clock.advance(5 * HOUR)
    assert ledger.prices.cost("run-1") == 2 * (usd("3.67") + 1020)
    assert ledger.prices.hourly_now("t1") == 0


def test_a_stopped_cluster_costs_nothing_and_a_started_one_again(
    ledger: Ledger, clock: ManualClock
) -> None:
    _cluster(ledger, hourly=usd(1))
    clock.advance(HOUR)
    ledger.clusters.move("run-1", ClusterState.STOPPED, "you stopped it")
    clock.advance(10 * HOUR)
    assert ledger.prices.cost("run-1") == usd(1)
    ledger.clusters.resume_prices("run-1")
    ledger.clusters.resume_prices("run-1")
    ledger.clusters.move("run-1", ClusterState.RUNNING)
    clock.advance(2 * HOUR)
    assert ledger.prices.cost("run-1") == usd(3)
    assert ledger.prices.cost("run-1", "t1") == usd(3)
    assert ledger.prices.cost("run-1", "t2") == 0
    assert ledger.prices.uptime("t1") == 3 * HOUR, "a stop is no uptime"


def test_a_listing_that_shows_a_machine_gone_ends_its_price_alone(
    ledger: Ledger, clock: ManualClock
) -> None:
    _cluster(ledger, count=2, hourly=usd(1))
    clock.advance(HOUR)
    ledger.instances.seen(
        [instance("t1", "t1-0", InstanceState.GONE), instance("t1", "t1-1", node=1)]
    )
    clock.advance(HOUR)
    assert ledger.prices.cost("run-1") == usd(3)
    assert [i.state for i in ledger.instances.of_launch("t1")] == [
        InstanceState.GONE,
        InstanceState.RUNNING,
    ]


def test_an_unchanged_listing_is_not_written(ledger: Ledger) -> None:
    _cluster(ledger)
    before = ledger.store._connection.total_changes
    ledger.instances.seen([instance("t1", "t1-0")])
    assert ledger.store._connection.total_changes == before


def test_failed_attempts_cost_too(ledger: Ledger, clock: ManualClock) -> None:
    _run(ledger)
    ledger.launches.intend(launch_row("t1", candidate(hourly=usd(4))))
    ledger.launches.accepted("t1", ("i-1",))
    clock.advance(HOUR / 4)
    ledger.launches.failed("t1", Failure(Cause.UNHEALTHY, "no ssh"), AttemptState.ENDING)
    clock.advance(HOUR / 4)
    ledger.launches.move("t1", AttemptState.GONE)
    clock.advance(HOUR)
    assert ledger.prices.cost("run-1", "t1") == usd(2)


# ---------------------------------------------------------------- blocks


def _block(ledger: Ledger, cause: Cause = Cause.CAPACITY, wanted: Candidate | None = None) -> Block:
    block = block_after(wanted or candidate(), Failure(cause, "none"), ledger.clock.now())
    assert block is not None
    return block


def test_a_block_ends_by_itself_and_its_repeats_are_counted(
    ledger: Ledger, clock: ManualClock
) -> None:
    block = _block(ledger)
    assert ledger.blocks.repeats(block) == 0
    ledger.blocks.remember(block)
    assert ledger.blocks.standing() == [block]
    assert ledger.blocks.repeats(block) == 1
    clock.advance(3 * MINUTE)
    assert ledger.blocks.standing() == []
    assert ledger.blocks.repeats(block) == 1
    ledger.blocks.remember(_block(ledger))
    assert ledger.blocks.repeats(block) == 2
    assert len(ledger.blocks.standing()) == 1


@pytest.mark.parametrize("cause", sorted(CHECKED))
def test_a_check_that_passes_ends_blocks_of_its_account(
    ledger: Ledger, clock: ManualClock, cause: Cause
) -> None:
    mine = _block(ledger, cause)
    ledger.blocks.remember(mine)
    ledger.blocks.remember(_block(ledger, cause, candidate(account="other")))
    ledger.blocks.remember(_block(ledger))
    assert ledger.blocks.end_checked("aws", "me", mine.since - 1) == 0, "it was begun before"
    assert ledger.blocks.end_checked("gcp", "me", mine.since + 1) == 0
    assert ledger.blocks.end_checked("aws", "me", mine.since + 1) == 1
    assert sorted((b.cause, b.account) for b in ledger.blocks.standing()) == sorted(
        [(cause, "other"), (Cause.CAPACITY, "me")]
    )
    clock.advance(HOUR)
    assert ledger.blocks.standing() == [], "not every check sees the balance"


def test_an_acceptance_clears_what_it_contradicts(ledger: Ledger) -> None:
    ledger.blocks.remember(_block(ledger))
    ledger.blocks.remember(_block(ledger, wanted=candidate(zone="east-b")))
    assert ledger.blocks.clear(candidate()) == 1
    assert [b.zone for b in ledger.blocks.standing()] == ["east-b"]
    assert ledger.blocks.clear() == 1
    assert ledger.blocks.standing() == []


def test_quota_is_free_again_when_a_machine_of_the_family_ends(ledger: Ledger) -> None:
    for wanted in (candidate(), candidate(family="cpu"), candidate(region="west")):
        ledger.blocks.remember(_block(ledger, Cause.QUOTA, wanted))
    ledger.blocks.remember(_block(ledger))
    ledger.blocks.free_quota(candidate(zone="east-c"))
    left = {(b.cause, b.region, b.quota_family) for b in ledger.blocks.standing()}
    assert left == {
        (Cause.QUOTA, "east", "cpu"),
        (Cause.QUOTA, "west", "gpu"),
        (Cause.CAPACITY, "east", ""),
    }


# ---------------------------------------------------------------- the rest


def test_guards_jobs_and_events_come_back_as_they_were_given(ledger: Ledger) -> None:
    _run(ledger)
    ledger.guards.set("run-1", 0, {"idle_seconds": 60}, {"idle": 3})
    assert ledger.guards.get("run-1") == ({"idle_seconds": 60}, {"idle": 3}, ledger.clock.now())
    assert ledger.guards.get("run-1", 1) is None
    ledger.jobs.set("run-1", "j1", "setup", "pip install x", "running")
    ledger.jobs.set("run-1", "j1", "setup", "pip install x", "done", 0)
    assert [(j["state"], j["exit_code"]) for j in ledger.jobs.of_run("run-1")] == [("done", 0)]
    ledger.events.add("run-1", EventKind.RUN_FINISHED, "x" * 9999, state="failed")
    assert len(ledger.events.of_run("run-1")[0].text) == 500
    assert ledger.events.of_run("run-1")[0].data == {"state": "failed"}


def test_a_job_that_was_seen_before_its_command_was_told_has_both(ledger: Ledger) -> None:
    _run(ledger)
    ledger.jobs.set("run-1", "setup-2", "setup", "", "running")
    ledger.jobs.set("run-1", "setup-2", "setup", "pip install x", "running")
    ledger.jobs.set("run-1", "setup-2", "setup", "", "ok", 0)
    assert [(j["command"], j["state"]) for j in ledger.jobs.of_run("run-1")] == [
        ("pip install x", "ok")
    ]


MODEL_VALUES = st.one_of(
    *(st.from_type(kind) for kind in (Candidate, Launch, CreateOperation, Instance, Block, Failure))
)


@given(MODEL_VALUES)
def test_model_values_survive_the_ledger(
    value: Candidate | Launch | CreateOperation | Instance | Block | Failure,
) -> None:
    text = json.dumps(to_plain(value))
    again = from_plain(type(value), json.loads(text))
    assert json.dumps(to_plain(again)) == text
    if "NaN" not in text:
        assert again == value


def test_fields_of_another_release_are_passed_over_or_take_their_defaults() -> None:
    plain = to_plain(Failure(Cause.QUOTA, "limit 8"))
    del plain["message"]
    assert from_plain(Failure, {**plain, "novelty": [1]}) == Failure(Cause.QUOTA)


def test_a_secret_does_not_belong_in_the_ledger() -> None:
    with pytest.raises(TypeError, match="Secret does not belong"):
        to_plain({"token": Secret("x")})


def test_the_rows_of_a_dead_kernel_read_as_they_were_written(
    ledger: Ledger, tmp_path: Path
) -> None:
    _run(ledger)
    row = launch_row("t1", candidate(count=3))
    ledger.launches.intend(row)
    ledger.launches.failed(
        "t1", Failure(Cause.UNKNOWN_OUTCOME, "no answer", retry_after=2.5), AttemptState.UNKNOWN
    )
    stored = ledger.launches.of_run("run-1")[0]
    assert stored.launch == row.launch
    assert stored.launch.template_values == {}
    assert stored.candidate == row.candidate
    assert stored.failure == Failure(Cause.UNKNOWN_OUTCOME, "no answer", retry_after=2.5)


def test_a_job_keeps_its_command_when_it_is_told_again_without_one(ledger: Ledger) -> None:
    _run(ledger)
    ledger.jobs.set("run-1", "train-1", "train", "", "queued")
    ledger.jobs.set("run-1", "train-1", "train", "python train.py", "running")
    ledger.jobs.set("run-1", "train-1", "train", "", "done", 0)
    (job,) = ledger.jobs.of_run("run-1")
    assert (job["command"], job["state"], job["exit_code"]) == ("python train.py", "done", 0)


def test_a_stored_candidate_is_decoded_once() -> None:
    text = dump(candidate(count=2))
    assert candidate_of(text) is candidate_of(str(text))
    assert candidate_of(text) == candidate(count=2)
    assert candidate_of(dump(candidate(count=3))).count == 3
