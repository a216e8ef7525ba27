"""The errors that people see. Every one has a code, says what happened and what to do next, and renders in a few lines."""

from __future__ import annotations


def _printable(text: str) -> str:
    """The text without control characters: an error repeats what machines and clouds say, and is shown in many places."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
    )


class NbprovError(Exception):
    """Base of all errors of nbprov.

    Parameters
    ----------
    message
        What happened, in one sentence.
    hint
        What to do next, in one sentence; may be empty.
    code
        A stable, greppable name such as `spec.unknown-field`.

    Notes
    -----
    `_render_traceback_` is the hook IPython offers for an error's own rendering: the cell still fails and nbclient still
    stops, but the reader sees the message and not the inside of a library. `%tb` shows the whole.
    """

    code = "nbprov.error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        message = _printable(message)
        super().__init__(message)
        self.message = message
        self.hint = _printable(hint)
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
    """A magic or an API call was given arguments that do not fit."""

    code = "usage"


class NotFound(NbprovError):
    """What was named does not exist (any more)."""

    code = "not-found"


class LedgerError(NbprovError):
    """The ledger cannot be used: it is newer than this release, locked, or unreadable."""

    code = "ledger"


class Interrupted(KeyboardInterrupt):
    """The person interrupted a wait; says what is being torn down or left running."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def _render_traceback_(self) -> list[str]:
        return [self.message]
