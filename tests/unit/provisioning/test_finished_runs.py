"""Keys and drivers are kept for as long as anything of their run may matter, and not longer."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from manual_clock import ManualClock
from provisioning_samples import candidate, instance, launch_row

from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import InstanceState
from nbprov.provisioning.finished_runs import FinishedRuns
from nbprov.provisioning.ledger import (
    LEASE_SECONDS,
    LaunchRow,
    LeaseLost,
    Ledger,
    NameTaken,
    ReplacementRow,
)
from nbprov.provisioning.ledger.side_objects import DOUBT_SECONDS
from nbprov.provisioning.run.driver import RunDriver
from nbprov.remote.ssh.keys import CLIENT_KEY, ClusterKeys

NO = Failure(Cause.UNKNOWN, "no")
UP = (AttemptState.ACCEPTED, AttemptState.BOOTING, AttemptState.SSH, AttemptState.AGENT)
ENDS = (RunState.CANCELLED, RunState.FAILED, RunState.ENDED)
FINAL = [state for state in AttemptState if state.is_final]
index = st.integers(0, 5)
either = st.sampled_from([0, 0, 0, 1])
clusters = st.sampled_from(list(ClusterState)[2:])
MOST_RUNS = 3
"""So few that what happens meets the same runs again."""


class KeptKeys(RuleBasedStateMachine):
    """Two kernels on one home, whose runs, launches and clusters move as they please."""

    def __init__(self) -> None:
        super().__init__()
        self._home = tempfile.TemporaryDirectory(prefix="nbprov-keys-")
        home = Path(self._home.name)
        self.keys, self.clock = home / "keys", ManualClock()
        self.kernels = [
            Ledger(home / "ledger.sqlite3", self.clock, f"kernel-{number}") for number in (0, 1)
        ]
        self.collectors = [FinishedRuns(ledger, self.keys, {}) for ledger in self.kernels]
        self.runs: list[str] = []
        self.tokens: list[str] = []
        self.late: set[str] = set()

    def teardown(self) -> None:
        for ledger in self.kernels:
            ledger.close()
        self._home.cleanup()

    # ------------------------------------------------------------ what happens

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(kernel=either, is_written=st.sampled_from([True, True, True, False]))
    def open_run(self, kernel: int, is_written: bool) -> None:
        run_id = f"run-{len(self.runs)}"
        (self.keys / run_id).mkdir(parents=True)
        (self.keys / run_id / CLIENT_KEY).write_text("key")
        self.runs.append(run_id)
        if is_written:
            self.kernels[kernel].runs.open(
                run_id, run_id, "", folder="", race=1, consent=0, state=RunState.LAUNCHING
            )

    @rule(kernel=either, run=index)
    def intend(self, kernel: int, run: int) -> None:
        ledger = self.kernels[kernel]
        row = ledger.runs.get(self._run(run)) if self.runs else None
        if row is not None and row.state is RunState.LAUNCHING:
            token = f"{len(self.tokens) + 1:032x}"
            wanted = launch_row(
                token, candidate(), len(self.tokens) + 1, row.run_id, self.clock.now()
            )
            with suppress(LeaseLost):
                ledger.launches.intend(wanted)
                self.tokens.append(token)

    @rule(kernel=either, launch=index, state=st.sampled_from(AttemptState))
    def answer(self, kernel: int, launch: int, state: AttemptState) -> None:
        row, launches = self._launch(launch), self.kernels[kernel].launches
        if row is None or row.state.is_final or row.state is AttemptState.READY:
            return
        with suppress(LeaseLost):
            if state is AttemptState.ACCEPTED:
                launches.accepted(row.token, [f"i-{row.token[-4:]}"])
            elif state in (AttemptState.REFUSED, AttemptState.ABSENT, AttemptState.UNKNOWN):
                launches.failed(row.token, NO, state)
            elif state is not AttemptState.READY:
                launches.move(row.token, state)

    @rule(kernel=either, launch=index)
    def hand_over(self, kernel: int, launch: int) -> None:
        row, ledger = self._launch(launch), self.kernels[kernel]
        if row is None or row.state not in UP or ledger.clusters.of_run(row.run_id) is not None:
            return
        with suppress(LeaseLost):
            ledger.clusters.hand_over(row.run_id, row.run_id, row.run_id, row.token, row.candidate)

    @rule(kernel=either, run=index, state=clusters)
    def move_cluster(self, kernel: int, run: int, state: ClusterState) -> None:
        if self.runs:
            self.kernels[kernel].clusters.move(self._run(run), state)

    @rule(kernel=either, run=index, state=st.sampled_from(ENDS))
    def finish_run(self, kernel: int, run: int, state: RunState) -> None:
        """As a run that failed or was cancelled, whose machines may still be on the bill."""
        ledger = self.kernels[kernel]
        row = ledger.runs.get(self._run(run)) if self.runs else None
        if row is not None and row.state is RunState.LAUNCHING:
            with suppress(LeaseLost):
                ledger.runs.move(row.run_id, state)

    @rule(kernel=either, launch=index)
    def lose_node_and_ask_for_another(self, kernel: int, launch: int) -> None:
        row, ledger = self._launch(launch), self.kernels[kernel]
        if row is None or row.state is not AttemptState.READY:
            return
        ledger.replacements.lose_machines(row.token, [instance(row.token, i) for i in row.ids])
        number = len(ledger.replacements.of_launch(row.token)) + 1
        now = self.clock.now()
        wanted = ReplacementRow(
            *(row.token, number, row.run_id, 0, AttemptState.INTENT),
            replace(row.launch, part=number, nodes=(0,)),
            *(None, "", None, 0, now + 30, now, None),
        )
        with suppress(LeaseLost):
            ledger.replacements.intend(wanted)

    @rule(kernel=either, launch=index, state=st.sampled_from(AttemptState))
    def answer_replacement(self, kernel: int, launch: int, state: AttemptState) -> None:
        row, replacements = self._launch(launch), self.kernels[kernel].replacements
        asked = replacements.open_one(row.token) if row is not None else None
        if asked is None:
            return
        with suppress(LeaseLost):
            if state is AttemptState.ACCEPTED:
                replacements.made(asked, f"r-{asked.number}")
            elif state is AttemptState.READY:
                replacements.ready(asked)
            elif state.is_final or state is AttemptState.ENDING:
                replacements.end(asked, state, NO)

    @rule(kernel=either, launch=index)
    def list_a_machine(self, kernel: int, launch: int) -> None:
        """A machine of any launch, of one that is over too: it came late, and is to be ended."""
        row = self._launch(launch)
        if row is not None:
            self.kernels[kernel].instances.seen([instance(row.token, f"i-{row.token[-4:]}")])
            if row.ended is not None and row.ended < self.clock.now():
                self.late.add(row.token)

    @rule(kernel=either, launch=index)
    def list_it_as_gone(self, kernel: int, launch: int) -> None:
        row = self._launch(launch)
        if row is not None:
            gone = instance(row.token, f"i-{row.token[-4:]}", InstanceState.GONE)
            self.kernels[kernel].instances.seen([gone])
            self.late.discard(row.token)

    # Whole stories, now single steps seldom make one.

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(answers=st.lists(st.sampled_from(FINAL), min_size=1, max_size=2), late=st.booleans())
    def launch_in_vain(self, answers: list[AttemptState], late: bool) -> None:
        self.open_run(0, True)
        run, first = len(self.runs) - 1, len(self.tokens)
        for number, state in enumerate(answers):
            self.intend(0, run)
            if state is AttemptState.GONE:
                self.answer(0, first + number, AttemptState.ACCEPTED)
            self.answer(0, first + number, state)
        self.finish_run(0, run, RunState.FAILED)
        if late:
            self.wait(1.0)
            self.list_a_machine(0, first)
        self.kernels[0].leases.release(self.runs[run])

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(
        answer=st.sampled_from([None, *AttemptState]), end=st.sampled_from(list(ClusterState)[2:])
    )
    def use_a_cluster(self, answer: AttemptState | None, end: ClusterState) -> None:
        self.open_run(0, True)
        run, launch = len(self.runs) - 1, len(self.tokens)
        self.intend(0, run)
        self.answer(0, launch, AttemptState.ACCEPTED)
        self.hand_over(0, launch)
        if answer is not None:
            self.list_a_machine(0, launch)
            self.lose_node_and_ask_for_another(0, launch)
            self.answer_replacement(0, launch, AttemptState.ACCEPTED)
            self.answer_replacement(0, launch, answer)
        self.kernels[0].clusters.move(self.runs[run], end)
        self.kernels[0].leases.release(self.runs[run])

    @rule(kernel=either, run=index, verb=st.sampled_from(["take", "release", "renew"]))
    def change_lease(self, kernel: int, run: int, verb: str) -> None:
        if self.runs:
            leases, run_id = self.kernels[kernel].leases, self._run(run)
            leases.renew([run_id]) if verb == "renew" else getattr(leases, verb)(run_id)

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS + 1, 600.0, DOUBT_SECONDS + 1]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # ------------------------------------------------------------ what is removed

    @rule(kernel=either)
    def collect(self, kernel: int) -> None:
        """Nothing is removed that may matter."""
        there = self._there()
        self._collect(kernel)
        for run_id in there - self._there():
            assert self._why_kept(run_id) == ""
            assert not any(one.leases.left(run_id) for one in self.kernels), "a kernel works on it"
            event("removed")

    @rule(run=index)
    def finish_and_collect(self, run: int) -> None:
        """All that is over is removed once no kernel is at work on it, and nothing else is."""
        if not self.runs:
            return
        if (row := self.kernels[0].runs.get(self._run(run))) is not None:
            self._end_what_is_known(row.run_id)
        for run_id in self.runs:
            for ledger in self.kernels:
                ledger.leases.release(run_id)
        there = self._there()
        self._collect(0)
        assert self._there() == {run_id for run_id in there if self._why_kept(run_id)}
        event("all removed" if not self._there() else "some kept")

    def _end_what_is_known(self, run_id: str) -> None:
        """End the cluster of a run, or the run; what else is of it stays as it is."""
        ledger = self.kernels[0]
        if not ledger.clusters.move(run_id, ClusterState.ENDED) and ledger.leases.take(run_id):
            ledger.runs.move(run_id, RunState.FAILED)

    def _collect(self, kernel: int) -> None:
        removal = self.collectors[kernel].collect()
        if removal is not None:
            removal.result()

    def _there(self) -> set[str]:
        return {run_id for run_id in self.runs if (self.keys / run_id / CLIENT_KEY).exists()}

    def _why_kept(self, run_id: str) -> str:
        """Why a run is not over, by what other parts of nbprov ask the ledger."""
        ledger = self.kernels[0]
        row, cluster = ledger.runs.get(run_id), ledger.clusters.of_run(run_id)
        if row is None:
            return "the ledger does not know it"
        now = self.clock.now()
        tokens = {launch.token for launch in ledger.launches.of_run(run_id)}
        reasons = {
            "it may do more by itself": row.state not in ENDS,
            "it needs work": run_id in {one.run_id for one in ledger.runs.unfinished()},
            "its cluster lives": cluster is not None and cluster.state is not ClusterState.ENDED,
            "it may be on the bill": bool(tokens & ledger.launches.live_tokens()),
            "a create is undecided": bool(tokens & ledger.side_objects.doubted("aws")),
            "a machine is to replace another": any(
                ledger.replacements.open_one(token) for token in tokens
            ),
            "a create of a replacement is undecided": any(
                one.state is AttemptState.ABSENT and now < (one.ended or now) + DOUBT_SECONDS
                for token in tokens
                for one in ledger.replacements.of_launch(token)
            ),
            "an orphan is to be ended": bool(tokens & self.late),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _run(self, number: int) -> str:
        return self.runs[number % len(self.runs)]

    def _launch(self, number: int) -> LaunchRow | None:
        if not self.tokens:
            return None
        token = self.tokens[number % len(self.tokens)]
        rows = [row for run_id in self.runs for row in self.kernels[0].launches.of_run(run_id)]
        return next(row for row in rows if row.token == token)


TestKeptKeys = KeptKeys.TestCase
TestKeptKeys.settings = settings(max_examples=150, stateful_step_count=20)


# ---------------------------------------------------------------- one case each


@pytest.mark.parametrize(
    ("answer", "end", "is_kept"),
    [
        (None, ClusterState.ENDED, False),
        (AttemptState.READY, ClusterState.ENDED, False),
        (AttemptState.GONE, ClusterState.ENDED, False),
        (AttemptState.ABSENT, ClusterState.ENDED, True),
        (None, ClusterState.ENDING, True),
        (None, ClusterState.UNKNOWN, True),
        (AttemptState.READY, ClusterState.STOPPED, True),
    ],
)
def test_a_cluster_keeps_its_keys_until_it_has_ended_with_all_that_replaced_its_machines(
    answer: AttemptState | None, end: ClusterState, is_kept: bool
) -> None:
    home = KeptKeys()
    try:
        home.use_a_cluster(answer, end)
        home._collect(1)
        assert home._there() == ({"run-0"} if is_kept else set())
    finally:
        home.teardown()


def test_a_machine_that_is_still_listed_unchanged_after_its_launch_was_refused_keeps_its_keys() -> (
    None
):
    home = KeptKeys()
    try:
        home.launch_in_vain([AttemptState.REFUSED], late=False)
        home.list_a_machine(0, 0)
        home.wait(1.0)
        home.list_a_machine(0, 0)
        home._collect(0)
        assert home._there() == {"run-0"}
        home.list_it_as_gone(0, 0)
        home._collect(0)
        assert home._there() == set()
    finally:
        home.teardown()


def _home(ledger: Ledger, run_id: str = "run-1", state: RunState = RunState.LAUNCHING) -> Path:
    keys = ledger.store.path.parent / "keys"
    ClusterKeys.create(keys / run_id)
    ledger.runs.open(run_id, run_id, "", folder="", race=1, consent=0, state=state)
    return keys


def _collect(ledger: Ledger, drivers: dict[str, RunDriver] | None = None) -> None:
    keys = ledger.store.path.parent / "keys"
    if (removal := FinishedRuns(ledger, keys, drivers or {}).collect()) is not None:
        removal.result()


def test_a_create_that_seemed_to_make_nothing_keeps_its_keys_while_it_is_in_doubt(
    ledger: Ledger, clock: ManualClock
) -> None:
    keys, token = _home(ledger), f"{1:032x}"
    ledger.launches.intend(launch_row(token, candidate()))
    ledger.launches.failed(token, NO, AttemptState.ABSENT)
    ledger.runs.move("run-1", RunState.FAILED)
    ledger.leases.release("run-1")
    clock.advance(DOUBT_SECONDS)
    _collect(ledger)
    assert (keys / "run-1").exists()
    clock.advance(1)
    _collect(ledger)
    assert not (keys / "run-1").exists()


def test_a_run_that_another_kernel_is_at_work_on_keeps_its_keys(
    ledger: Ledger, clock: ManualClock
) -> None:
    other = Ledger(ledger.store.path, clock, "kernel-2")
    keys = _home(other)
    other.runs.move("run-1", RunState.CANCELLED)
    _collect(ledger)
    assert (keys / "run-1").exists()
    clock.advance(LEASE_SECONDS + 1)
    _collect(ledger)
    assert not (keys / "run-1").exists(), "that kernel is dead"
    other.close()


def test_an_orphan_of_a_launch_that_is_over_keeps_the_keys_until_it_is_gone(
    ledger: Ledger, clock: ManualClock
) -> None:
    keys, token = _home(ledger), f"{1:032x}"
    ledger.launches.intend(launch_row(token, candidate()))
    ledger.launches.failed(token, NO, AttemptState.REFUSED)
    ledger.runs.move("run-1", RunState.FAILED)
    ledger.leases.release("run-1")
    clock.advance(5)
    ledger.instances.seen([instance(token)])
    _collect(ledger)
    assert (keys / "run-1").exists()
    ledger.instances.seen([instance(token, state=InstanceState.GONE)])
    _collect(ledger)
    assert not (keys / "run-1").exists()


def test_what_a_copy_of_the_ledger_says_removes_nothing(ledger: Ledger) -> None:
    keys = _home(ledger)
    ledger.runs.move("run-1", RunState.FAILED)
    ledger.leases.release("run-1")
    ledger.store.is_copy = True
    _collect(ledger)
    assert (keys / "run-1").exists()
    ledger.store.is_copy = False
    _collect(ledger)
    assert not (keys / "run-1").exists()


def test_files_and_links_among_the_keys_are_left_alone(ledger: Ledger, tmp_path: Path) -> None:
    keys, elsewhere = _home(ledger), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    ledger.runs.open("run-2", "two", "", folder="", race=1, consent=0, state=RunState.LAUNCHING)
    (keys / "run-2").symlink_to(elsewhere)
    (keys / "note").touch()
    for run_id in ("run-1", "run-2"):
        ledger.runs.move(run_id, RunState.FAILED)
        ledger.leases.release(run_id)
    _collect(ledger)
    assert sorted(entry.name for entry in keys.iterdir()) == ["note", "run-2"]
    assert (elsewhere / "mine").exists()


def test_a_launch_whose_name_is_taken_leaves_no_keys(world: EngineWorld) -> None:
    engine = world.engine()
    world.market('[[stock]]\ntype = "small"\nleft = 0\n')
    waiting = world.launch(engine, world.prepare(engine, text="wait: 1h"))
    with pytest.raises(NameTaken):
        world.launch(engine, world.prepare(engine))
    assert _names(world) == {waiting.run_id}


@pytest.mark.machine
def test_a_day_of_short_runs_leaves_neither_keys_nor_drivers(world: EngineWorld) -> None:
    engine = world.engine(poll_every=0.05)
    sold_out = '[[stock]]\ntype = "small"\nleft = 0\n'
    most = 0
    for number in range(200):
        is_up = number % 20 == 0
        if number % 20 in (0, 1):
            world.market("" if is_up else sold_out)
            engine.clear_blocks()
        name = f"short-{number}"
        driver = world.launch(engine, world.prepare(engine, name))
        assert world.finish(driver) is (RunState.READY if is_up else RunState.FAILED)
        if is_up:
            world.do(engine, engine.lifecycle.down(engine.cluster(name)))
        most = max(most, len(_names(world)), len(engine.drivers))
    assert most < 10
    world.until(lambda: not _names(world) and not engine.drivers, "the last run's")


def _names(world: EngineWorld) -> set[str]:
    return {entry.name for entry in (world.home / "keys").iterdir()}


@pytest.mark.machine
def test_a_running_and_a_stopped_cluster_keep_their_keys_beside_runs_that_are_over(
    world: EngineWorld,
) -> None:
    engine = world.engine(poll_every=0.05)
    kept: set[Any] = set()
    for name in ("up", "off", "over"):
        driver = world.launch(engine, world.prepare(engine, name))
        assert world.finish(driver) is RunState.READY
        kept |= {driver.run_id} if name != "over" else set()
    world.do(engine, engine.lifecycle.stop(engine.cluster("off")))
    world.do(engine, engine.lifecycle.down(engine.cluster("over")))
    world.until(lambda: _names(world) == kept, "the keys of the run that is over")
    world.abandon(engine)
    second = world.engine(poll_every=0.05)
    world.take_up(second)
    world.do(second, second.lifecycle.start(second.cluster("off")))
    world.do(second, second.attach("up"))
    assert _names(world) == kept
