"""The replacement of a cluster by one that fits.

The new cluster is made beside the old one, which is ended once the new one is set up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.services import Services
from nbprov.api.steps import Steps, result
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.money import format_usd

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow


_OVER = (ClusterState.ENDING, ClusterState.ENDED)


class NotReplaced(NbprovError):
    """The new cluster is ready, but could not get the name of the old one; both run."""

    code = "cluster.not-replaced"


def next_name(name: str) -> str:
    """The name of the new cluster until it gets that of the old one."""
    return f"{name}-next"


def note_of(old: ClusterRow) -> str:
    """What a person should know of a replacement before Launch."""
    price = (
        f"{format_usd(old.candidate.hourly)}/h, " if old.state is not ClusterState.STOPPED else ""
    )
    node = f"{old.candidate.count} x " if old.candidate.count > 1 else ""
    return (
        f"replaces {old.name} ({node}{old.candidate.offer.instance_type}, {price}"
        f"{old.state.value}): that is ended once this one is set up, and both are billed until"
        f" then. Nothing on its disk comes along: pull it first (%nbprov sync {old.name} FOLDER"
        f" --pull). If this launch fails, {old.name} stays as it is"
    )


def take_place(
    context: Context, services: Services, cluster: Cluster, old: ClusterRow
) -> Steps[None]:
    """Put a new cluster that an earlier kernel made in the place of the old one."""
    if cluster.setting_up is not None:
        yield from cluster.setting_up.until_done()
    placed = put_in_place(context, services, cluster.cluster_id, old.cluster_id)
    yield from result(context.engine.thread.call(with_readable_errors(placed)))
    cluster.remarks = (
        *cluster.remarks,
        f"it was made before, and has taken the place of {old.name}, which is being ended",
    )
    cluster.view()  # the handle learns its new name


async def put_in_place(context: Context, services: Services, new_id: str, old_id: str) -> None:
    """Give a cluster the name of another one, and begin to end that. On the engine thread.

    Raises
    ------
    NotReplaced
        If that is not possible; both go on.
    """
    engine, renamed = context.engine, services.names.renamed
    new, old = engine.ledger.clusters.by_id(new_id), engine.ledger.clusters.by_id(old_id)
    if new is None or old is None:
        return
    try:
        # While both have their names: a pull that fails keeps the old cluster as it is.
        await services.hooks.before_end(old)
        old = engine.ledger.clusters.by_id(old_id) or old
        if old.state in _OVER:
            await _settled(engine, old)
            await engine.lifecycle.rename(new, old.name)
            renamed(new.run_id, new.name, old.name)
            return
        aside = await engine.lifecycle.take_place(new, old)
    except NbprovError as error:
        raise NotReplaced(
            f"{new.name} is ready, and has not taken the place of {old.name}: {error.message}",
            hint=f"run the cell again with --replace, or end one of them: %nbprov down {new.name}",
        ) from error
    renamed(old.run_id, old.name, aside.name)
    renamed(new.run_id, new.name, old.name)
    # Nobody waits for it. Should this kernel end, the next one that looks goes on.
    engine.thread.call(
        services.tunnels.settled_after(old.cluster_id, engine.lifecycle.down(aside, aside.reason))
    )


async def _settled(engine: Engine, old: ClusterRow) -> None:
    if old.state is ClusterState.ENDING:
        await with_readable_errors(engine.lifecycle.down(old, old.reason))
