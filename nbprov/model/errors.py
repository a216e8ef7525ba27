"""The errors that people see: each has a code, says what happened and what to do next."""

from __future__ import annotations

from .text.plain import printable


class NbprovError(Exception):
    """Base of all errors of nbprov.

    Attributes
    ----------
    message
        What happened, in one sentence.
    hint
        What to do next, in one sentence; may be empty.
    code
        A stable, greppable name such as `spec.unknown-field`.

    Notes
    -----
    IPython calls `_render_traceback_` to show an error. The cell still fails and nbclient still
    stops, but the reader sees the message and not the inside of a library; `%tb` shows all.
    """

    code = "nbprov.error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        message = printable(message)
        super().__init__(message)
        self.message = message
        self.hint = printable(hint)
        if code is not None:
            self.code = code

    def render(self) -> list[str]:
        """The lines a person sees."""
        lines = [f"{self.message}  [{self.code}]"]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.render())

    def _render_traceback_(self) -> list[str]:
        return self.render()


class UsageError(NbprovError):
    """A magic or an API call has arguments that do not fit."""

    code = "usage"


class NotFound(NbprovError):
    """The object with this name does not exist, or does not exist any more."""

    code = "not-found"


class LedgerError(NbprovError):
    """The ledger is newer than this release, locked or unreadable."""

    code = "ledger"


class EndUnrecorded(LedgerError):
    """The cloud was asked to end the cluster, and the ledger cannot say what became of it yet."""

    code = "ledger.end-unrecorded"

    @classmethod
    def of(cls, became: str, error: LedgerError) -> EndUnrecorded:
        """The error for a cluster of which this became."""
        return cls(
            f"{became}; that could not be written down, so %clusters shows it as before:"
            f" {error.message}",
            hint=f"{error.hint}; this kernel writes it down as soon as it can, and the next load"
            " finds it out from the cloud's list",
        )


class Interrupted(KeyboardInterrupt):
    """The person interrupted a wait; the message says what ends and what goes on.

    It is a `KeyboardInterrupt`, and no `NbprovError`.
    """

    def __init__(self, message: str) -> None:
        message = printable(message)
        super().__init__(message)
        self.message = message

    def _render_traceback_(self) -> list[str]:
        return [self.message]
