"""What is said at load about machines that an earlier kernel left."""

from __future__ import annotations

import logging
from typing import Any

from .panels.displays import Line

log = logging.getLogger("nbprov.notebook")


def greet(shell: Any) -> None:
    """Reconcile in the background; one line tells what was found, and is renewed with what became of it."""
    from nbprov.api import session
    from nbprov.provisioning.reconcile import Report, reconcile

    engine = session().engine
    line = Line("nbprov: looking at what an earlier kernel left …")
    report = Report()

    def tell() -> None:
        line.renew(
            f"nbprov: {report}" if report.lines else "nbprov: nothing is left of earlier kernels"
        )

    report.on_change = lambda: engine.publisher.mark(("greeting", id(line)), tell)

    async def look() -> None:
        try:
            await reconcile(engine, report)
        except Exception as error:
            log.exception("reconcile")
            report.say("error", f"what an earlier kernel left could not be checked: {error}")
        report.on_change()

    engine.thread.call(look())
