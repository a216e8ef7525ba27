"""One worker's bench: a cloud of its own, and on it one story after another, each played, cut,
taken up, checked and cleared away.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from player import NAME, STEP_SECONDS, make_engine, see_wait_out
from stories import REPLACING, Story

from nbprov.clouds.local.client import DaemonClient
from nbprov.model.clusters import ClusterState
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.reconcile import ReconcileReport, reconcile

PLAYER = Path(__file__).resolve().parent / "player.py"
PLAY_SECONDS = 90.0
"""How long a story may take until it is cut; one that takes longer is cut here, and counted as not
reached.
"""
SETTLE_SECONDS = 10.0


@dataclass
class Machine:
    """A machine as the daemon's own books have it."""

    id: str
    token: str
    owner: str
    state: str


@dataclass
class Outcome:
    """What became of one story.

    Attributes
    ----------
    hit
        Whether the trap struck; otherwise the story was told to its end.
    alive
        Machines that were alive when the process was killed.
    adopted, ended
        How many of those were a cluster's afterwards, and how many were gone.
    orphans, doubles
        What must not be: machines that no live cluster of the ledger owns, and runs with more than
        one cluster's machines.
    """

    story: Story
    hit: bool = False
    alive: int = 0
    adopted: int = 0
    ended: int = 0
    orphans: list[str] = field(default_factory=list)
    doubles: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    report: str = ""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing was left behind, nothing was made twice and nothing went wrong."""
        return not (self.orphans or self.doubles or self.problems)


def judge(
    machines: Sequence[Machine], clusters: Iterable[ClusterRow], nodes: int
) -> tuple[list[str], list[str]]:
    """Orphans and doubles among the machines alive, given the ledger's live clusters and how many
    nodes each has.
    """
    live = {row.token: row for row in clusters if row.state is not ClusterState.ENDED}
    orphans = [m.id for m in machines if m.token not in live]
    doubles = []
    if len({m.token for m in machines}) > 1:
        doubles = sorted({m.token for m in machines})
    for token, row in live.items():
        count = sum(m.token == token for m in machines)
        if count != nodes:
            doubles.append(f"{row.name}: {count} of {nodes} machines")
    return orphans, doubles


class Bench:
    """A worker's cloud and the folder of its stories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cloud = folder / "cloud"
        self.cloud.mkdir(parents=True, exist_ok=True, mode=0o700)

    # ------------------------------------------------------------ the daemon's own books

    def machines(self, owner: str = "") -> list[Machine]:
        """Machines that are not gone, as the daemon has them; read from its file, past all that is
        tested.
        """
        with closing(
            sqlite3.connect(f"{(self.cloud / 'state.db').as_uri()}?mode=ro", uri=True, timeout=10)
        ) as db:
            bodies = [
                json.loads(body)
                for (body,) in db.execute("SELECT body FROM rows WHERE kind = 'machine'")
            ]
        alive = [
            Machine(b["id"], b["token"], b["owner"], b["state"])
            for b in bodies
            if b["state"] != "gone"
        ]
        return [m for m in alive if not owner or m.owner == owner]

    def undecided(self) -> int:
        """Creates that the daemon has not decided yet."""
        with closing(
            sqlite3.connect(f"{(self.cloud / 'state.db').as_uri()}?mode=ro", uri=True, timeout=10)
        ) as db:
            bodies = [
                json.loads(body)
                for (body,) in db.execute("SELECT body FROM rows WHERE kind = 'operation'")
            ]
        return sum(b["state"] == "pending" for b in bodies)

    def close(self) -> None:
        """End the daemon and what it may still run."""
        client = DaemonClient(self.cloud)
        with suppress(Exception):
            pid = client.call("describe", timeout=5, start=False)["pid"]
            client.call("end_all", timeout=30, start=False)
            os.kill(
                pid, signal.SIGKILL
            )  # nothing runs any more, and its orderly end takes a second

    # ------------------------------------------------------------ one story

    def tell(self, story: Story) -> Outcome:
        """Play a story, cut it, let a fresh engine take it up, and check."""
        began = time.monotonic()
        home = self.folder / f"{story.number}"
        home.mkdir(mode=0o700)
        self._set_market(story)
        outcome = Outcome(story)
        try:
            order = self._order(story, home)
            if story.earlier is not None:
                first = {
                    **order,
                    "transition": story.earlier[0],
                    "when": story.earlier[1],
                    "nth": 1,
                    "mark": str(home / "first"),
                }
                self._play(first, home, in_kernel=False)
                order["takes_up"] = True
            self._play(order, home, in_kernel=story.in_kernel)
            outcome.hit = (home / "mark").exists()
            self._check(order, outcome)
        except Exception as error:
            outcome.problems.append(f"{type(error).__name__}: {error}")
        outcome.seconds = time.monotonic() - began
        if outcome.is_good:
            shutil.rmtree(home, ignore_errors=True)
        return outcome

    def _set_market(self, story: Story) -> None:
        draft = self.cloud / "market.new"
        draft.write_text(story.market, encoding="utf-8")
        draft.replace(self.cloud / "market.toml")
        DaemonClient(self.cloud).call("describe", timeout=15)

    def _order(self, story: Story, home: Path) -> dict[str, Any]:
        return {
            **story.to_json(),
            "home": str(home),
            "cloud": str(self.cloud),
            "mark": str(home / "mark"),
            "takes_up": False,
        }

    def _play(self, order: dict[str, Any], home: Path, *, in_kernel: bool) -> None:
        file = home / "order.json"
        file.write_text(json.dumps(order), encoding="utf-8")
        with (home / "player.log").open("ab") as log:
            if in_kernel:
                from kernel_player import play_in_kernel

                play_in_kernel(file, log, PLAY_SECONDS)
                return
            child = subprocess.Popen(
                [sys.executable, str(PLAYER), str(file)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=home,
            )
            try:
                code = child.wait(PLAY_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(
                f"the player ended with {code}:"
                f" {(home / 'player.log').read_text(errors='replace')[-600:]}"
            )

    def _check(self, order: dict[str, Any], outcome: Outcome) -> None:
        at_kill = {m.id for m in self.machines()}
        outcome.alive = len(at_kill)
        engine = make_engine(order, None)
        report = ReconcileReport()
        try:
            engine.thread.call(reconcile(engine, report)).result(STEP_SECONDS)
            for driver in list(engine.drivers.values()):
                see_wait_out(engine, driver)  # one that waits for stock goes on for hours by itself
            outcome.report = str(report)
            self._until(lambda: not self.undecided())
            ledger = engine.ledger
            if outcome.story.kind in REPLACING:
                self._until(lambda: self._is_mended(ledger, outcome.story.count))
            clusters = ledger.clusters.latest(live_only=True)
            nodes = (
                outcome.story.count
                if not any(c.state is ClusterState.STOPPED for c in clusters)
                else len(self.machines())
            )
            outcome.orphans, outcome.doubles = judge(self.machines(), clusters, nodes)
            run = next(iter(ledger.runs.latest()), None)
            if run is not None and run.cancelled and clusters and run.state.value != "ready":
                outcome.problems.append("a cancelled launch was kept")
            outcome.problems += [
                f"run {row.run_id} is still {row.state.value}" for row in ledger.runs.unfinished()
            ]
            kept = {m.id for m in self.machines()}
            outcome.adopted, outcome.ended = len(at_kill & kept), len(at_kill - kept)
            for row in clusters:
                engine.thread.call(engine.lifecycle.down(engine.cluster(row.name))).result(
                    STEP_SECONDS
                )
            self._until(lambda: not self.machines())
            if ledger.clusters.named(NAME) is not None and ledger.clusters.latest(live_only=True):
                outcome.problems.append("a cluster is live in the ledger after it was ended")
        finally:
            engine.shut_down()
        left = self.machines()
        if left:
            outcome.orphans += [f"{m.id} after the end" for m in left]
            DaemonClient(self.cloud).call("end_all", timeout=30)

    def _is_mended(self, ledger: Ledger, count: int) -> bool:
        """Whether nothing is being replaced, and every cluster that runs has its machines."""
        rows, there = ledger.clusters.latest(live_only=True), {m.id for m in self.machines()}
        ready = all(
            row.state is not ClusterState.RUNNING
            or len(there & set(ledger.launches.ids_of(row.token))) == count
            for row in rows
        )
        return ready and all(ledger.replacements.open_one(row.token) is None for row in rows)

    @staticmethod
    def _until(condition: Any) -> None:
        end = time.monotonic() + SETTLE_SECONDS
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
