"""What the handle of a launch has of its cluster's verbs, so that the name of a `%%provision` cell serves for both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from .cluster import Cluster

if TYPE_CHECKING:
    from .run import Run

P = ParamSpec("P")
R = TypeVar("R")


def _of_its_cluster(verb: Callable[Concatenate[Cluster, P], R]) -> Callable[Concatenate[Run, P], R]:
    @functools.wraps(verb)
    def act(run: Run, /, *arguments: P.args, **named: P.kwargs) -> R:
        return verb(run.cluster(), *arguments, **named)

    return act


class ClusterVerbs:
    """Verbs of the cluster that a launch ends in. Each waits until it is set up; an interrupt of that wait leaves the launch alone."""

    cell = _of_its_cluster(Cluster.cell)
    bash = _of_its_cluster(Cluster.bash)
    submit = _of_its_cluster(Cluster.submit)
    jobs = _of_its_cluster(Cluster.jobs)
    job = _of_its_cluster(Cluster.job)
    logs = _of_its_cluster(Cluster.logs)
    wait_job = _of_its_cluster(Cluster.wait_job)
    cancel_job = _of_its_cluster(Cluster.cancel_job)
    cancel_jobs = _of_its_cluster(Cluster.cancel_jobs)
    push = _of_its_cluster(Cluster.push)
    pull = _of_its_cluster(Cluster.pull)
    sync = _of_its_cluster(Cluster.sync)
    outputs = _of_its_cluster(Cluster.outputs)
    tunnel = _of_its_cluster(Cluster.tunnel)
    ssh_command = _of_its_cluster(Cluster.ssh_command)
    set_up = _of_its_cluster(Cluster.set_up)
    guards = _of_its_cluster(Cluster.guards)
    stop = _of_its_cluster(Cluster.stop)
    start = _of_its_cluster(Cluster.start)
    restored = _of_its_cluster(Cluster.restored)
    rename = _of_its_cluster(Cluster.rename)

    def cluster(self: Run) -> Cluster:  # type: ignore[misc]
        """The handle of the cluster, once it is set up; where its setup failed and it was kept, all the same, from then on.

        Raises
        ------
        UsageError
            If it was never launched.
        Unavailable, SetupFailed
            If the launch comes to nothing meanwhile.
        """
        if not self.done:
            self.wait_detached()
        row = self._session.engine.ledger.clusters.of_run(self.run_id)
        if self.error is not None and row is not None and row.ended is None:
            return Cluster(self._session, row.name, cluster_id=row.cluster_id)
        return self.wait()
