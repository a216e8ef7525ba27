"""A new cluster in the place of one that does not fit: made beside it first, and only when it is set up is the old one ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import readably
from nbprov.api.services import Services
from nbprov.api.steps import Steps, result
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.money import format_usd

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow

log = logging.getLogger("nbprov.api")

_OVER = (ClusterState.ENDING, ClusterState.ENDED)


class NotReplaced(NbprovError):
    """The new cluster is ready, and could not be put in the place of the old one; both run."""

    code = "cluster.not-replaced"


def next_name(name: str) -> str:
    """What the new cluster is called until it takes the name of the old one."""
    return f"{name}-next"


def note_of(old: ClusterRow) -> str:
    """What a person should know before Launch."""
    price = (
        f"{format_usd(old.candidate.hourly)}/h, " if old.state is not ClusterState.STOPPED else ""
    )
    node = f"{old.candidate.count} x " if old.candidate.count > 1 else ""
    return (
        f"takes the place of {old.name} ({node}{old.candidate.offer.instance_type}, {price}{old.state.value}): that is ended once this one is"
        f" set up, and both are billed until then. Nothing on its disk comes along: bring it first (%nbprov sync {old.name} FOLDER --pull)."
        f" If this one comes to nothing, {old.name} stays as it is"
    )


def take_place(
    context: Context, services: Services, cluster: Cluster, old: ClusterRow
) -> Steps[None]:
    """Put a new cluster that an earlier kernel made in the place of the old one."""
    if cluster.setting_up is not None:
        yield from cluster.setting_up.until_done()
    placed = put_in_place(context, services, cluster.cluster_id, old.cluster_id)
    yield from result(context.engine.thread.call(readably(placed)))
    cluster.remarks = (
        *cluster.remarks,
        f"it was made before, and has taken the place of {old.name}, which is being ended",
    )
    cluster.view()  # the handle learns its new name


async def put_in_place(context: Context, services: Services, new_id: str, old_id: str) -> None:
    """Give a cluster the name of another, and begin to end that one. On the engine thread.

    Raises
    ------
    NotReplaced
        If that cannot be; both go on.
    """
    engine, renamed = context.engine, services.names.renamed
    new, old = engine.ledger.cluster_by_id(new_id), engine.ledger.cluster_by_id(old_id)
    if new is None or old is None:
        return
    try:
        # While both have their names: what keeps the old one's outputs from coming keeps its machine too.
        await services.hooks.before_the_end(old)
        old = engine.ledger.cluster_by_id(old_id) or old
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
    # It goes on by itself, and is taken up by whoever looks should this kernel end.
    engine.thread.call(
        services.tunnels.settled_after(old.cluster_id, engine.lifecycle.down(aside, aside.reason))
    )


async def _settled(engine: Engine, old: ClusterRow) -> None:
    if old.state is ClusterState.ENDING:
        await readably(engine.lifecycle.down(old, old.reason))
