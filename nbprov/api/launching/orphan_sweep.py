"""The sweep for machines of ours that no row of the ledger knows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nbprov.api.context import Context
from nbprov.api.errors import readable_error
from nbprov.api.services.clouds import CloudService
from nbprov.api.steps import Steps, result
from nbprov.clouds import registry
from nbprov.model.errors import NbprovError


def sweep(context: Context, clouds: CloudService, *, end: bool) -> Steps[list[str]]:
    """End machines that the ledger does not know; see `Session.sweep`."""
    from nbprov.provisioning.reconcile import ORPHAN_SECONDS, ReconcileReport, end_orphans, tidy

    engine, report = context.engine, ReconcileReport()

    async def look(name: str) -> None:
        try:
            await end_orphans(engine, name, report, least_age=0.0 if end else ORPHAN_SECONDS)
            await tidy(engine, name, report)
        except Exception as error:
            told = readable_error(error)
            words = (
                told.message if isinstance(told, NbprovError) else f"{type(told).__name__}: {told}"
            )
            report.say(f"cloud {name}", f"{name}: could not be swept: {words}")

    async def look_everywhere(names: list[str]) -> None:
        await asyncio.gather(*(look(name) for name in names))

    names = yield from _where_machines_may_be(context, clouds)
    yield from result(engine.thread.call(look_everywhere(names)))
    return list(report.lines.values())


def _state_of(name: str, home: Path) -> Path:
    """Where a simulated cloud keeps its machines."""
    from nbprov.clouds.local.rpc import Unreachable, state_dir

    try:
        return state_dir() if name == "local" else home / name
    except Unreachable:
        return home / name


def _where_machines_may_be(context: Context, clouds: CloudService) -> Steps[list[str]]:
    """The clouds that were launched on, and those that can be used.

    A simulated cloud is not started for a look: it must be there already.
    """
    engine = context.engine
    used = engine.ledger.launches.clouds()
    can = {name: clouds.capabilities_at_hand(name) for name in registry.names()}
    simulated = {
        name
        for name, capabilities in can.items()
        if capabilities is not None and capabilities.named_only
    }
    used |= {name for name in simulated if _state_of(name, engine.home).is_dir()}
    others = [name for name in can if name not in used | simulated]
    asked = yield from clouds.check(others, fresh=False)
    return sorted(used & set(can)) + [told.cloud for told in asked if told.enabled]
