"""The line at load about machines that an earlier kernel left."""

from __future__ import annotations

import logging

from .panels.output_line import OutputLine

log = logging.getLogger("nbprov.notebook")


def report_earlier_kernels() -> None:
    """Reconcile in the background, and report in one line what was found and what became of it."""
    from nbprov.api import session
    from nbprov.provisioning.reconcile import ReconcileReport, reconcile

    engine = session().engine
    line = OutputLine("nbprov: checking what an earlier kernel left running …")
    report = ReconcileReport()

    def show() -> None:
        line.replace(
            f"nbprov: {report}"
            if report.lines
            else "nbprov: an earlier kernel left nothing running"
        )

    report.on_change = lambda: engine.publisher.mark(("load message", id(line)), show)

    async def check() -> None:
        try:
            await reconcile(engine, report)
        except Exception as error:
            log.exception("reconcile")
            report.say("error", f"what an earlier kernel left could not be checked: {error}")
        report.on_change()

    engine.thread.call(check())
