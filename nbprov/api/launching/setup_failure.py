"""What becomes of a cluster that could not be set up: it is kept for repair, or ended, as its spec says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbprov.api.errors import readable
from nbprov.api.reports import is_simulated
from nbprov.model.errors import NbprovError
from nbprov.model.money import format_usd
from nbprov.model.python_env import DOWN
from nbprov.model.spec import Spec
from nbprov.provisioning.supervision.desired_state import ASKED_BARE

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.machines.setup.setup_jobs import Report

log = logging.getLogger("nbprov.api")

SET_UP = "set-up"
"""The event of a run whose files, Python, setup and run are done, or handed to the machine."""

EVENT = "set-up-failed"
"""The event of a run whose cluster could not be set up; its detail says why, in a line."""

REASON = "it could not be set up"


class SetupEnded(NbprovError):
    """A cluster could not be set up and was ended, as `on_setup_failure: down` asks."""

    code = "setup.failed-down"


async def after_failure(
    session: Session, run_id: str, spec: Spec, error: BaseException, report: Report
) -> BaseException:
    """Keep or end the cluster of a bring-up that failed; the error for the person, which says which it was.

    On the engine's thread. With `down` it returns once the logs of its jobs are kept and no machine is listed any more. A cluster that was set up once is kept in any case:
    somebody's work may be on it, and a slip in a later cell must not end that.
    """
    engine, told = session.engine, readable(error)
    row = engine.ledger.clusters.of_run(run_id)
    said = told.message if isinstance(told, NbprovError) else f"{type(told).__name__}: {told}"
    engine.ledger.events.add(run_id, EVENT, said.partition("\n")[0])
    was_set_up = any(kind == SET_UP for _, kind, _ in engine.ledger.events.of_run(run_id))
    if spec.on_setup_failure != DOWN or row is None or was_set_up:
        return told
    report("setting up failed: ending the machines, as on_setup_failure: down asks")
    lifecycle = engine.lifecycle
    # Written down first: a kernel that dies in between leaves it to the next.
    lifecycle.ask(row, ASKED_BARE, REASON)
    try:
        await session.with_logs_kept(row, lifecycle.down(row, REASON))
    except Exception as trouble:
        log.exception("%s: ended after its setup failed", row.name)
        hint = f"its guards are on, and %clusters shows it; %nbprov down {row.name} tries again"
        fate = f"it could not be ended yet: {trouble}"
    else:
        cost = format_usd(engine.ledger.prices.cost(run_id)) + (
            " (simulated: you pay $0)" if is_simulated(row.candidate.offer) else ""
        )
        log_kept = (
            f"all of its log: %nbprov logs {row.name}; "
            if engine.ledger.jobs.of_run(run_id)
            else ""
        )
        hint = f"{log_kept}correct the cell and run it again; without on_setup_failure: down the machines are kept"
        fate = f"it was ended, as on_setup_failure: down asks, confirmed by the cloud's list; it cost {cost}"
    ended = SetupEnded(f"{said}\n{row.name}: {fate}", hint=hint)
    ended.__cause__ = told
    return ended
