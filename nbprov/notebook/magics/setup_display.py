"""Show how a cluster is set up again: its files, its Python environment and its setup commands."""

from __future__ import annotations

from collections import deque

from nbprov.api import ClusterSetup, session
from nbprov.model.errors import NbprovError
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.output_line import OutputLine
from nbprov.notebook.rendering.tables import safe_text
from nbprov.notebook.terminal import say

LINES = 10
"""Lines of the log below the line that says what is being done."""


def follow_setup(name: str, setting_up: ClusterSetup, *, wait: bool) -> None:
    """Show the setup's progress.

    Where outputs can be renewed this is one line with the latest lines of the log below it;
    elsewhere every line of the log is printed as it comes.
    """
    head = f"{name}: {setting_up.why}; setting it up now …"
    if frontend.current() is not frontend.Frontend.WIDGETS:
        _print_setup(name, setting_up, head)
        return
    publisher = session().engine.publisher
    line = OutputLine(head)
    log: deque[str] = deque(maxlen=LINES)

    def replace(text: str) -> None:
        publisher.mark(
            ("setting up", id(line)), lambda: line.replace(safe_text("\n".join([text, *log])))
        )

    def on_progress(text: str, log_line: str) -> None:
        if log_line:
            log.append(f"    {log_line}")
        replace(head if log_line else f"{name}: {text}")

    def on_end(error: BaseException | None) -> None:
        log.clear()
        replace(_done(name) if error is None else _error_text(name, error))

    setting_up.listen(on_progress)
    setting_up.when_done(on_end)
    if wait:
        setting_up.wait()


def _print_setup(name: str, setting_up: ClusterSetup, head: str) -> None:
    say(head, flush=True)
    setting_up.listen(lambda text, line: say(safe_text(line or f"{name}: {text}"), flush=True))
    setting_up.wait()
    say(_done(name), flush=True)


def _done(name: str) -> str:
    return f"{name} is set up: %%on {name} runs cells on it"


def _error_text(name: str, error: BaseException) -> str:
    return "\n".join(error.render()) if isinstance(error, NbprovError) else f"{name}: {error}"
