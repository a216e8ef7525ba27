"""Outputs of a cluster, asked for while it runs: what its handle has of them. When they are taken without a word is in `taking.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbprov.model.errors import Interrupted, UsageError
from nbprov.runtime.waiting import wait_for

from .errors import readably

if TYPE_CHECKING:
    from nbprov.machines.files.outputs import OutputPull
    from nbprov.provisioning.ledger import ClusterRow

    from .cluster import Cluster
    from .session import Session


class Giving:
    """What a cluster's handle has of outputs."""

    def outputs(self: Cluster) -> OutputPull:  # type: ignore[misc]
        """Bring the spec's `outputs` here now; the machine goes on. Blocks.

        Only what is missing here or was changed there is moved. A file that was changed here is left alone: the machine's comes beside it.

        Returns
        -------
        OutputPull
            What came: `files`, `bytes`, and `lines` that say it.

        Raises
        ------
        OutputsNotPulled
            If some could not be brought.
        NotReached
            If the machines do not answer.
        UsageError
            If its spec names no outputs.
        Interrupted
            On Ctrl-C; the pull goes on behind it.
        """
        return _pulled_now(self._session, self._row())


def begin_pull(session: Session, row: ClusterRow) -> Any:
    """A future of a pull of outputs that begins now, or goes on.

    Raises
    ------
    UsageError
        If the spec names none.
    """
    if not session.takings.wanted(row.run_id):
        raise UsageError(
            f"the spec of {row.name} names no outputs",
            hint="add outputs: [results] to the cell, and run it again",
        )

    async def pulled() -> OutputPull:
        from nbprov.machines.files.outputs import OutputsNotPulled

        taking = await session.takings.take(row)
        if not taking.is_whole:
            raise OutputsNotPulled(
                f"not all outputs of {row.name} could be pulled: {taking.left_words()}",
                hint="the machine runs on; mend it and say it again: it goes on from here",
            )
        return taking

    return session.engine.thread.call(readably(pulled()))


def _pulled_now(session: Session, row: ClusterRow) -> OutputPull:
    try:
        taking: OutputPull = wait_for(begin_pull(session, row))
    except KeyboardInterrupt:
        raise Interrupted(
            f"the pull of the outputs of {row.name} goes on in the background; %clusters shows how far it is"
        ) from None
    return taking
