"""What a `provision` finds under its name already: a launch that is under way, or a cluster to be used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

from .cluster import Cluster, Done
from .errors import DoesNotFit, readably
from .launching.adopted_launches import Say, other_spec, same_wish, see_adopted, waiting_driver
from .launching.cluster_reuse import use_again
from .run import Run
from .spec_inputs import Given

if TYPE_CHECKING:
    from nbprov.provisioning.ledger.ledger import ClusterRow

    from .session import Session

_OVER = (ClusterState.ENDED, ClusterState.ENDING)


def existing(
    session: Session,
    spec: Spec,
    name: str,
    given: Callable[[], Given],
    folder: str,
    say: Say,
    agreed: bool = False,
) -> Run | Cluster | None:
    """What a spec and a name find there: a launch under way, or a cluster that fits, started where it was stopped; None where there is neither.

    Raises
    ------
    LaunchUnderWay
        If a launch of that name is under way from another spec, or in another notebook.
    DoesNotFit
        If a cluster of that name is there and differs.
    """
    from nbprov.planning import fits

    run = _under_way(session, spec, name) or _joined(session, spec, name, given, folder, say)
    if run is not None:
        return run
    came_to_nothing = see_adopted(session.engine, name, say)
    if came_to_nothing is not None:
        say(came_to_nothing.message)
    row = _observed(session, name, say)
    if row is None:
        return None
    differences = fits(spec, session.cluster_view(row))
    if differences:
        raise DoesNotFit(
            f"{name} is {row.state.value} and differs: {'; '.join(differences)}",
            hint=f"use another name; put a new one in its place: %%provision {name} --replace; or end it first: %nbprov down {name}",
        )
    run = session.runs.get(name)
    if run is not None and run.run_id == row.run_id and not run.done:
        return run  # its setup goes on
    was_stopped = row.state is ClusterState.STOPPED
    if was_stopped:
        Cluster(session, name, cluster_id=row.cluster_id).start(spec=spec, agreed=agreed).wait()
        row = session.engine.cluster(name)
    cluster = use_again(session, row, spec, session.spec_of(row.run_id), given, folder)
    cluster.was_started = was_stopped
    return cluster


def _under_way(session: Session, spec: Spec, name: str) -> Run | None:
    """This session's launch of that name, if one is under way from the same spec."""
    from nbprov.spec import to_yaml

    run = session.runs.get(name)
    if (
        run is None
        or not run.is_under_way
        or run.state not in (RunState.LAUNCHING, RunState.WAITING)
    ):
        return None
    if to_yaml(run.spec) != to_yaml(spec):
        raise other_spec(name)
    return run


def _joined(
    session: Session, spec: Spec, name: str, given: Callable[[], Given], folder: str, say: Say
) -> Run | None:
    """A wait for stock that an earlier kernel began and this one has taken up, as a run of this session."""
    driver = waiting_driver(session.engine, name, say)
    if driver is None:
        return None
    if not same_wish(driver.spec, spec):
        raise other_spec(name)
    driver.spec = spec  # with the values that only the cell has
    session.runs[name] = Run.joined(session, driver, given(), folder)
    return session.runs[name]


def _observed(session: Session, name: str, say: Say) -> ClusterRow | None:
    """The live cluster of this name, compared with its cloud's list just now. One that is ending is seen out."""
    engine = session.engine
    row = engine.ledger.clusters.named(name)
    if row is not None and row.state not in _OVER:
        wait_for(
            engine.thread.call(
                readably(engine.lifecycle.observe(engine.cloud(row.candidate.offer.cloud)))
            )
        )
        row = engine.ledger.clusters.named(name)
    if row is not None and row.state is ClusterState.ENDING:
        say(f"{name} is being ended; waiting until that is confirmed …")
        Done(
            engine.thread.call(readably(engine.lifecycle.down(row, row.reason))), f"ending {name}"
        ).wait()
        row = engine.ledger.clusters.named(name)
    return None if row is None or row.state in _OVER else row
