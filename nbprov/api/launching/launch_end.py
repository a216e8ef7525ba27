"""The end of a launch or of a cluster, whichever bears the name."""

from __future__ import annotations

import concurrent.futures

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.operation import Operation
from nbprov.api.services import Services
from nbprov.api.services.adopted_launches import (
    cancel,
    driver_of,
    end_unwritten,
    ending_launches,
    foreign_launch,
    until_foreign_gone,
    until_gone,
    until_launches_gone,
)
from nbprov.model.errors import LedgerError, NbprovError


def end(
    context: Context,
    services: Services,
    name: str,
    *,
    cluster_id: str = "",
    outputs: bool = True,
) -> Operation:
    """End the cluster of this name, or cancel its launch; see `Session.down`."""
    engine, run = context.engine, context.runs.get(name)
    driver = None
    if (
        run is not None
        and run.is_under_way
        and not run.state.is_final
        and cluster_id in ("", run.run_id)
    ):
        driver = run.driver
    if driver is None:
        driver = driver_of(engine, name)
    if driver is not None and cluster_id in ("", driver.run_id):
        cancel(engine, driver)
        return Operation(engine.thread.call(until_gone(engine, driver)), f"ending {name}")
    row = foreign_launch(engine, name)
    if row is not None and cluster_id in ("", row.run_id):
        try:
            engine.ledger.runs.request_cancel(row.run_id)
        except LedgerError as error:
            ended = engine.thread.call(with_readable_errors(end_unwritten(engine, row, error)))
            return Operation(ended, f"ending {name}")
        note = (
            f"{name} is being launched by another kernel, which is asked to end it;"
            " if that kernel is gone, the launch is adopted and ended here"
        )
        ended = engine.thread.call(until_foreign_gone(engine, row))
        return Operation(ended, f"ending {name}", note)
    if not cluster_id:
        live = engine.ledger.clusters.named(name)
        pending = [] if live is not None and live.ended is None else ending_launches(engine, name)
        if pending:
            gone = engine.thread.call(until_launches_gone(engine, pending))
            return Operation(gone, f"ending {name}", f"{name} is being ended already")
        cluster_id = engine.cluster(name).cluster_id
    return Cluster(context, services, cluster_id, name).down(outputs=outputs)


def end_all(context: Context, services: Services, *, outputs: bool = True) -> dict[str, Operation]:
    """End every cluster and launch; see `Session.down_all`."""
    ended: dict[str, Operation] = {}
    for name in dict.fromkeys(view.name for view in services.views.views()):
        try:
            ended[name] = end(context, services, name, outputs=outputs)
        except NbprovError as error:
            # The others are billed meanwhile, so one that cannot be ended does not stop them.
            failed: concurrent.futures.Future[None] = concurrent.futures.Future()
            failed.set_exception(error)
            ended[name] = Operation(failed, f"ending {name}")
    return ended
