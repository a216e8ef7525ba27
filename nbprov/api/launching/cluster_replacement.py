"""A new cluster in the place of one that does not fit: made beside it first, and only when it is set up is the old one ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.errors import readably
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.money import format_usd
from nbprov.runtime.waiting import wait_for

if TYPE_CHECKING:
    from nbprov.api.run import Run
    from nbprov.api.session import Session
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


def replace_with(session: Session, result: Run | Cluster, old: ClusterRow) -> Run | Cluster:
    """What `provision` gives where a cluster is to be replaced: a run that ends in that, or the new cluster in its place already."""
    from nbprov.api.run import Run

    if isinstance(result, Run):
        if not result.replaces:
            result.replaces = old.cluster_id
            result.driver.notes = (*result.driver.notes, note_of(old))
        return result
    # An earlier kernel made it, and did not come to put it in its place.
    if result.setting_up is not None:
        result.setting_up.wait()
    wait_for(
        session.engine.thread.call(
            readably(put_in_place(session, result.cluster_id, old.cluster_id))
        )
    )
    result.remarks = (
        *result.remarks,
        f"it was made before, and has taken the place of {old.name}, which is being ended",
    )
    result.view()  # its name is the other one's now
    return result


async def put_in_place(session: Session, new_id: str, old_id: str) -> None:
    """Give a cluster the name of another, and begin to end that one. On the engine thread.

    Raises
    ------
    NotReplaced
        If that cannot be; both go on.
    """
    engine = session.engine
    new, old = engine.ledger.clusters.by_id(new_id), engine.ledger.clusters.by_id(old_id)
    if new is None or old is None:
        return
    try:
        # While both have their names: what keeps the old one's outputs from coming keeps its machine too.
        await session.before_the_end(old)
        old = engine.ledger.clusters.by_id(old_id) or old
        if old.state in _OVER:
            await _settled(session, old)
            await engine.lifecycle.rename(new, old.name)
            session.renamed(new.run_id, new.name, old.name)
            return
        aside = await engine.lifecycle.take_place(new, old)
    except NbprovError as error:
        raise NotReplaced(
            f"{new.name} is ready, and has not taken the place of {old.name}: {error.message}",
            hint=f"run the cell again with --replace, or end one of them: %nbprov down {new.name}",
        ) from error
    session.renamed(old.run_id, old.name, aside.name)
    session.renamed(new.run_id, new.name, old.name)
    # It goes on by itself, and is taken up by whoever looks should this kernel end.
    engine.thread.call(
        session.with_tunnels(old.cluster_id, engine.lifecycle.down(aside, aside.reason))
    )


async def _settled(session: Session, old: ClusterRow) -> None:
    if old.state is ClusterState.ENDING:
        await readably(session.engine.lifecycle.down(old, old.reason))
