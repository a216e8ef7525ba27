"""The handle of an operation that goes on in the background and returns nothing."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence

from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted
from nbprov.runtime.waiting import Waitable

from .steps import Steps, result, run_sync


class Operation(Waitable[None]):
    """An operation in the background, such as the end of a cluster: `wait()` or `await` it.

    Attributes
    ----------
    what
        What goes on, for the message of an interrupted wait: `ending dev`.
    note
        What a person should know before they wait for it.
    remarks
        What a person should know once it has ended, in lines: logs that could not be kept.
    """

    def __init__(
        self,
        future: concurrent.futures.Future[None],
        what: str,
        note: str = "",
        remarks: Sequence[str] = (),
    ) -> None:
        super().__init__(future)
        self.what, self.note, self.remarks = what, note, remarks

    def wait(self, timeout: Seconds | None = None) -> None:
        """Block until it ends.

        Raises
        ------
        CloudTrouble
            If the cloud refused, with the cause.
        Interrupted
            On Ctrl-C; the operation goes on.
        """
        run_sync(self.until_done(timeout))

    def until_done(self, timeout: Seconds | None = None) -> Steps[None]:
        """Wait for its end; raises as `wait`."""
        try:
            yield from result(self._future, timeout)
        except KeyboardInterrupt:
            raise self.interrupted() from None

    def interrupted(self) -> Interrupted:
        """Do what a Ctrl-C during a wait does; the error to raise."""
        return Interrupted(f"{self.what} goes on in the background; %clusters shows how far it is")

    def when_done(self, tell: Callable[[BaseException | None], None]) -> None:
        """Call a function at the end, with the error if there is one; on the engine thread."""

        def ended(future: concurrent.futures.Future[None]) -> None:
            if not future.cancelled():
                tell(future.exception())

        self._future.add_done_callback(ended)

    def when_failed(self, tell: Callable[[BaseException], None]) -> None:
        """Call a function with the error, if it ends in one; on the engine thread."""
        self.when_done(lambda error: None if error is None else tell(error))

    def __repr__(self) -> str:
        return f"<{self.what}: {'done' if self.done else 'under way'}>"
