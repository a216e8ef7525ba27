"""The setup of a cluster that a launch has just made."""

from __future__ import annotations

import asyncio

from nbprov.api.context import Context
from nbprov.api.run_progress import SetupProgress
from nbprov.api.services import Services
from nbprov.api.spec_inputs import RunInputs
from nbprov.provisioning.run.driver import RunDriver


async def set_up_first(
    context: Context,
    services: Services,
    driver: RunDriver,
    inputs: RunInputs,
    progress: SetupProgress,
) -> None:
    """Wait for the cluster of a launch, open its ports, and set it up. On the engine thread."""
    live = await asyncio.wrap_future(driver.ready)
    context.engine.live[live.run_id] = live
    progress.ports = tuple(await services.tunnels.open_ports(live, driver.spec.expose))
    await services.setups.bring_up(
        *(live, driver.spec, inputs.given, inputs.folder, progress.report),
        note=progress.note,
    )
