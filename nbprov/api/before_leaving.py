"""What a session does before a cluster goes, at whose word ever: the logs of its jobs and its outputs are brought here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow

    from .session import Session


class BeforeLeaving:
    """The session's part of ends and stops that the engine carries out; see `Leaving`. On the engine's thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def before_the_end(self, row: ClusterRow, *, outputs: bool = True) -> None:
        """Logs and, where asked for, outputs; raises where the cluster has to be kept for them."""
        await self._session.keeper.before_the_end(row)
        if outputs:
            await self._session.takings.before_down(row)

    async def before_a_stop(self, row: ClusterRow) -> None:
        """Logs and outputs, as far as they come in bounded time."""
        await self._session.keeper.before_the_end(row)
        await self._session.takings.before_stop(row)

    def outputs_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to bring since it ran."""
        return self._session.takings.are_left(row)
