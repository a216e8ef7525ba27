"""The handle of a job that was submitted."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Protocol

from nbprov.api.steps import Steps, run_sync
from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted
from nbprov.runtime.waiting import Waitable

if TYPE_CHECKING:
    from nbprov.machines.jobs.jobs import Job
    from nbprov.provisioning.ledger import ClusterRow


class JobSource(Protocol):
    """What a handle needs of the service that submitted its job."""

    def job(self, row: ClusterRow, name: str) -> Steps[Job]:
        """A job of a cluster, by its id or name."""

    def logs(
        self, row: ClusterRow, job: str = "run", *, last: int | None = None, node: int = 0
    ) -> Steps[str]:
        """The log of a job."""

    def cancel_job(self, row: ClusterRow, job: str = "run") -> Steps[None]:
        """Ask a job to end."""

    def current(self, row: ClusterRow) -> ClusterRow:
        """The row of a cluster as it is now."""


class JobHandle(Waitable["Job"]):
    """A job that was submitted: `wait()` or `await` its end. The job goes on in any case.

    Attributes
    ----------
    id
        Its id, by which any notebook finds it: `train-1`.
    cluster
        Name of its cluster.
    first
        The job as it was when it had been submitted, with its place in the queue.
    remark
        What to know beside that, in a line: why it is not written down yet. Usually empty.

    Examples
    --------
    >>> job = nbprov.cluster("dev").submit("python train.py", gpus=1)  # doctest: +SKIP
    >>> job.wait().exit_code  # doctest: +SKIP
    0
    """

    def __init__(
        self,
        jobs: JobSource,
        row: ClusterRow,
        job: Job,
        future: concurrent.futures.Future[Job],
        remark: str = "",
    ) -> None:
        super().__init__(future)
        self.id, self.cluster = job.id, row.name
        self.first, self.remark = job, remark
        self._jobs, self._row = jobs, row

    def wait(self, timeout: Seconds | None = None) -> Job:
        """Block until it has ended on all its nodes. Raises nothing where the job failed.

        Returns
        -------
        Job
            How it ended, with its exit code.

        Raises
        ------
        Interrupted
            On Ctrl-C; the job goes on.
        TimeoutError
            After `timeout` seconds; the job goes on.
        """
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{self.id} goes on on {self.cluster}; %nbprov jobs {self.cluster} shows it"
            ) from None

    def view(self) -> Job:
        """The job as it is now."""
        return run_sync(self._jobs.job(self._jobs.current(self._row), self.id))

    def logs(self, *, last: int | None = None, node: int = 0) -> str:
        """Its output so far, or the last lines of it."""
        row = self._jobs.current(self._row)
        return run_sync(self._jobs.logs(row, self.id, last=last, node=node))

    def cancel(self) -> None:
        """Ask it to end, then kill it."""
        run_sync(self._jobs.cancel_job(self._jobs.current(self._row), self.id))

    def __repr__(self) -> str:
        if not self.done:
            state = "under way"
        elif self._future.cancelled() or self._future.exception() is not None:
            state = "not seen to end"
        else:
            state = self._future.result().state
        remark = self.remark and f"; {self.remark}"
        return f"<JobHandle {self.id} on {self.cluster}: {state}{remark}>"
