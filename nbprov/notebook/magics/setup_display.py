"""What is shown of a cluster that is set up again: its files, its Python, its setup."""

from __future__ import annotations

from collections import deque

from nbprov.api import ClusterSetup, session
from nbprov.model.errors import NbprovError
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.displays import Line
from nbprov.notebook.rendering.tables import safe_text

LINES = 10
"""Of the log, below the line that says what goes on."""


def follow_setting_up(name: str, setting_up: ClusterSetup, *, wait: bool) -> None:
    """Show what goes on: a line that is renewed where it can be, else every line of the log as it comes."""
    head = f"{name}: {setting_up.why}; setting it up now …"
    publisher = session().engine.publisher
    if frontend.current() is not frontend.Host.WIDGETS:
        print(head, flush=True)
        setting_up.listen(
            lambda text, line: print(safe_text(line or f"{name}: {text}"), flush=True)
        )
        setting_up.wait()
        print(f"{name} is set up: %%on {name} uses it", flush=True)
        return
    line = Line(head)
    log: deque[str] = deque(maxlen=LINES)

    def renew(text: str) -> None:
        publisher.mark(
            ("setting up", id(line)), lambda: line.renew(safe_text("\n".join([text, *log])))
        )

    def report(text: str, said: str) -> None:
        if said:
            log.append(f"    {said}")
        renew(head if said else f"{name}: {text}")

    def over(error: BaseException | None) -> None:
        log.clear()
        renew(f"{name} is set up: %%on {name} uses it" if error is None else _why(name, error))

    setting_up.listen(report)
    setting_up.when_done(over)
    if wait:
        setting_up.wait()


def _why(name: str, error: BaseException) -> str:
    return "\n".join(error.render()) if isinstance(error, NbprovError) else f"{name}: {error}"
