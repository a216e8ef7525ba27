"""The end of a launch or of a cluster, whichever bears the name."""

from __future__ import annotations

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.operation import Operation
from nbprov.api.services import Services
from nbprov.api.services.adopted_launches import (
    cancel,
    driver_of,
    foreign_launch,
    until_foreign_gone,
    until_gone,
)


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
        engine.ledger.runs.request_cancel(row.run_id)
        note = (
            f"{name} is being launched by another kernel, which is asked to end it;"
            " if that kernel is gone, the launch is adopted and ended here"
        )
        ended = engine.thread.call(until_foreign_gone(engine, row))
        return Operation(ended, f"ending {name}", note)
    cluster_id = cluster_id or engine.cluster(name).cluster_id
    return Cluster(context, services, cluster_id, name).down(outputs=outputs)
