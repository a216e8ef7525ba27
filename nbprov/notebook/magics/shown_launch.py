"""A launch as its panel needs it: by the handle of this session, else by its id in the ledger."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from nbprov.api import Cluster, Run, session
from nbprov.api.launching.cluster_replacement import next_name
from nbprov.api.launching.launch_views import launch_view
from nbprov.api.services.adopted_launches import try_now, wait_longer
from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState, ClusterState, RunState, RunView

if TYPE_CHECKING:
    from nbprov.planning import Relaxation
    from nbprov.provisioning.run.driver import RunDriver

RUN = "run"
"""The kind of subject that a launch is."""


class ShownLaunch:
    """One launch, whichever kernel began it, with what the buttons of its panel do.

    Parameters
    ----------
    run
        Its handle, where this session has one and its panel goes on with it.
    """

    def __init__(self, run_id: str, run: Run | None = None) -> None:
        self.run_id, self._own = run_id, run
        self._view = self.view()

    @property
    def _run(self) -> Run | None:
        """The handle; a cell that is run again makes one of a launch that was adopted."""
        if self._own is None:
            runs = list(session().runs.values())
            self._own = next((run for run in runs if run.run_id == self.run_id), None)
        return self._own

    @property
    def _driver(self) -> RunDriver | None:
        if self._run is not None:
            return self._run.driver
        return session().engine.drivers.get(self.run_id)

    @property
    def subject(self) -> str:
        """What panels of it show, as `Subject.name`."""
        return f"{RUN}:{self.run_id}"

    def view(self) -> RunView:
        """A snapshot. Any thread."""
        here, run = session(), self._run
        view = (
            run.view() if run is not None else launch_view(here.context, here.services, self.run_id)
        )
        assert view is not None, "a launch stays in the ledger"
        self._view = view
        return view

    # ------------------------------------------------------------ how far it is

    def stage(self, view: RunView) -> Hashable | None:
        """What its saved form tells apart; None while things are in motion."""
        run = self._run
        if run is None:
            is_moving = view.state in (RunState.LAUNCHING, RunState.CANCELLING)
        else:
            is_moving = run.launched and not run.done and view.state is not RunState.WAITING
        return None if is_moving else _stage_of(view)

    def is_over(self, view: RunView) -> bool:
        """Whether nothing of it is on the bill any more, and nothing will be."""
        run = self._run
        if view.cluster is not None and view.cluster.state is not ClusterState.ENDED:
            return False
        if run is not None:
            return run.done and not run.is_under_way
        return view.state.is_final and not _is_pending(view)

    def lacks_places(self, view: RunView) -> bool:
        """Whether it failed for good, so that it is worth a look what would open more places.

        Of launches of earlier kernels only the latest of its name counts, since a notebook may
        show many.
        """
        if view.state is not RunState.FAILED or not view.started or _is_pending(view):
            return False
        if self._run is not None:
            return True
        last = session().engine.ledger.runs.last(view.name)
        return last is not None and last.run_id == self.run_id

    # ------------------------------------------------------------ what buttons do

    def launch(self) -> None:
        """Agree to its price."""
        if self._run is not None:
            self._run.launch_soon()

    def cancel(self) -> None:
        """End it, whichever kernel drives it."""
        if self._run is not None:
            self._run.cancel()
        else:
            session().down(self._view.name, cluster_id=self.run_id)

    def try_now(self) -> None:
        """Try its places again, if this kernel drives it and it waits for stock."""
        if self._driver is not None:
            try_now(session().engine, self._driver)

    def wait_longer(self, seconds: Seconds) -> None:
        """Let it wait longer for stock. Blocks for a moment."""
        wait_longer(session().engine, self._driver, self._view.name, seconds)

    def prefer(self, keys: tuple[tuple[str, ...], ...]) -> None:
        """Try places of the plan first; only before Launch. Blocks for a moment."""
        if self._run is not None:
            self._run.prefer(*keys)

    @property
    def can_be_repeated(self) -> bool:
        """Whether it can be launched again; the replacement of a cluster is asked for by a cell."""
        if self._run is not None:
            return not self._run.replaces
        live = session().engine.ledger.clusters.latest(live_only=True)
        return self._view.name not in {next_name(row.name) for row in live}

    def again(self, wait: Seconds | None, change: Relaxation | None) -> Run | Cluster:
        """Launch it again. Blocks while it is planned."""
        return session().provision_again(self._run or self.run_id, wait=wait, change=change)

    def openings(self) -> tuple[Relaxation, ...]:
        """What would open more places. Blocks while it is planned."""
        here, run = session(), self._run
        if run is None and not here.context.can_read_spec(self.run_id):
            return ()
        return here.relax(run.spec if run is not None else here.context.spec_of(self.run_id))


def _stage_of(view: RunView) -> Hashable:
    passes = view.waiting.passes if view.waiting is not None else 0
    pending = sum(not a.state.is_final for a in view.attempts)
    cluster = view.cluster
    # The plan's time is part of it: a plan that was reordered by stock is a new one to save.
    return (
        view.state,
        passes,
        view.needs_launch,
        view.error,
        pending,
        view.plan.made_at,
        cluster and (cluster.name, cluster.state, cluster.reason),
    )


def _is_pending(view: RunView) -> bool:
    kept = AttemptState.READY
    return any(not a.state.is_final and a.state is not kept for a in view.attempts)
