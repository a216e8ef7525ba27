"""Clusters of a ledger, without machines: what the views of many clusters are read from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nbprov.api.session import Session
from nbprov.catalog import Catalog, Query, shipped_folder
from nbprov.model.clusters import (
    AttemptState,
    ClusterState,
    GpuLoad,
    LoadSample,
    MachineLoad,
    RunState,
)
from nbprov.model.launches import Instance, InstanceState, Launch
from nbprov.model.offers import Candidate
from nbprov.model.resources import Request
from nbprov.provisioning.ledger import LaunchRow

GIB = 1024**3
SAMPLES, SAMPLE_SECONDS = 13, 5.0
"""A minute of an agent's samples, which the panel draws as a line."""
SPEC = "resources: {accelerators: A100}\nconfig: {autostop: 60m}\n"


class KnownClusters:
    """A session whose ledger holds running clusters.

    Attributes
    ----------
    session
        Nothing in it asks a cloud.
    names
        The names of the running clusters, oldest first.
    """

    def __init__(self, session: Session, count: int) -> None:
        self.session = session
        self.names: list[str] = []
        rows = Catalog.open([shipped_folder()]).offers(Query())
        self._offers = [offer for offer in rows if offer.accelerator == "A100"]
        self._made = 0
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """Write one more cluster into the ledger, as a launch does."""
        number, ledger = self._made, self.session.context.engine.ledger
        self._made += 1
        token, run_id, name = f"{number:032x}", f"run-{number}", f"train-{number:03d}"
        offer = self._offers[number % len(self._offers)]
        candidate = Candidate(offer, Request(), number, 1, "bench", None, "next in price")
        now = ledger.clock.now()
        agreed = candidate.hourly
        ledger.runs.open(
            run_id, name, SPEC, folder="", race=1, consent=agreed, state=RunState.LAUNCHING
        )
        launch = Launch(token, ledger.owner, run_id, name, candidate, 1, 100)
        ledger.launches.intend(
            LaunchRow(
                *(token, run_id, 1, 0, offer.cloud, AttemptState.INTENT, candidate, launch, ""),
                *(None, (), None, now + 60.0, now, None),
            )
        )
        ledger.launches.accepted(token, (f"i-{number}",))
        ledger.instances.seen(
            [
                Instance(
                    *(offer.cloud, f"i-{number}", token, ledger.owner, offer.place),
                    *(offer.instance_type, InstanceState.RUNNING, "192.0.2.1", 22),
                )
            ]
        )
        ledger.clusters.hand_over(f"c-{number}", name, run_id, token, candidate)
        self.names.append(name)

    def end_oldest(self) -> None:
        """Write that the oldest cluster has ended."""
        number = int(self.names.pop(0).rpartition("-")[2])
        clusters = self.session.context.engine.ledger.clusters
        clusters.move(f"c-{number}", ClusterState.ENDED, "benchmark")

    def set_load(self, name: str, turn: int) -> None:
        """Let a cluster's agent have told another load."""
        context, number = self.session.context, int(name.rpartition("-")[2])
        samples = tuple(
            _sample(SAMPLE_SECONDS * at, (7 * (turn + at) + number) % 100) for at in range(SAMPLES)
        )
        load = MachineLoad(samples, 12, 85 * GIB, (100 + turn % 50) * GIB, 500 * GIB)
        told = context.engine.clock.elapsed(), (load,)
        self.session.services.loads._loads[f"run-{number}"] = told


def _sample(at: float, percent: float) -> LoadSample:
    gpu = GpuLoad(percent, int(percent / 100 * 80 * GIB), 80 * GIB)
    return LoadSample(at, percent * 12 / 100, int(percent / 100 * 85 * GIB), (gpu,))


@contextlib.contextmanager
def known_clusters(home: Path, count: int) -> Iterator[KnownClusters]:
    """Yield running clusters of a new ledger in this folder."""
    session = Session(home)
    try:
        yield KnownClusters(session, count)
    finally:
        session.close()
