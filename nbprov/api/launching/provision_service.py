"""The way from a spec to a run that waits for Launch, or to a cluster that is there already."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import DoesNotFit
from nbprov.api.planner import Planner
from nbprov.api.run import Run
from nbprov.api.services import Services
from nbprov.api.services.adopted_launches import Say, say_nothing
from nbprov.api.services.cluster_names import check_name
from nbprov.api.spec_inputs import (
    Ask,
    RunInputs,
    SpecInputs,
    ask_nobody,
    collect,
    filled_outputs,
    names_given,
)
from nbprov.api.steps import Steps
from nbprov.api.uploads import sent_notes
from nbprov.machines.files.output_targets import OutputFolders, check_outputs, target_notes
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.offers import Plan, RuleKind
from nbprov.model.spec import ExposedPorts, Spec

from .cluster_replacement import next_name, note_of, take_place
from .earlier_launch import EarlierLaunch
from .existing_cluster import ProvisionRequest, existing
from .stock_order import StockOrder

if TYPE_CHECKING:
    from nbprov.planning import Relaxation

DEFAULT_NAME = "cluster"
KEPT_RUNS = 50
"""So many runs that are over are kept with their plans, the newest by their names."""


def name_of(spec: Spec, name: str = "") -> str:
    """The name of a spec's cluster: the given one, the spec's own, or a default.

    Raises
    ------
    UsageError
        If a cluster cannot have the given name.
    """
    check_name(name)
    return name or spec.name or DEFAULT_NAME


class ProvisionService:
    """Makes runs, and finds clusters that fit.

    Parameters
    ----------
    runs
        The runs of the session by name; new ones are added.
    """

    def __init__(
        self,
        context: Context,
        services: Services,
        planner: Planner,
        order: StockOrder,
        runs: dict[str, Run],
    ) -> None:
        self._context, self._services, self._planner = context, services, planner
        self._order, self._runs = order, runs

    def provision(
        self,
        spec: Spec | str,
        name: str = "",
        *,
        race: int | None = None,
        hedge: Seconds = 20.0,
        agreed: bool = False,
        env: Mapping[str, str] | None = None,
        ignore: Sequence[str] | str = (),
        variables: Mapping[str, object] | None = None,
        folder: str = "",
        outputs_to: str = "",
        ask: Ask = ask_nobody,
        say: Say = say_nothing,
        replace: bool = False,
    ) -> Steps[Run | Cluster]:
        """Plan a spec and return a run that waits for `launch()`; nothing is created yet.

        `name` is the spec's own by default, else `cluster`. Where a cluster of that name fits, it
        is returned, with the spec's guards and started if need be, once what is under way is over.

        Parameters
        ----------
        race, hedge
            How many attempts may be under way at once; the next begins beside one that is not
            ready within the spec's own hedge, else `hedge` seconds. By default the spec decides.
        agreed
            Launch agrees to all that the spec's caps allow, also beyond `confirm_above`.
        env
            Values for envs and secrets that the spec leaves open.
        ignore, variables
            As for `parse`, where the spec is text.
        folder
            What relative paths are relative to; the current folder by default.
        outputs_to
            The folder for outputs (default: `NAME-outputs`), and an agreement to targets below it.
        ask, say
            `ask(name, hidden)` gives a missing value, or None; `say(line)` says what is awaited.
        replace
            Replace a cluster of that name that does not fit: the new one, `NAME-next`, gets the
            name once it is set up, and the old one is ended. Nothing on the old disk comes along.

        Raises
        ------
        SpecError, PlanError, UsageError
            If the spec cannot be used as it stands.
        LaunchUnderWay, DoesNotFit
            If a launch or cluster of that name differs from the spec; the message says how.
        """
        if isinstance(spec, str):
            known = names_given(env or {})
            spec = self._planner.parse(spec, ignore=ignore, variables=variables, given=known)
        if race is not None:
            spec = dataclasses.replace(spec, race=spec.race.widened(race, hedge=hedge))
        folder = folder or os.getcwd()
        inputs, called = partial(collect, spec, env or {}, ask, folder), name_of(spec, name)
        outputs = OutputFolders.agreed(folder, outputs_to, called)
        request = ProvisionRequest(spec, called, inputs, folder, outputs, say, agreed)
        return (yield from self._provision(request, may_replace=replace))

    def again(
        self, run: Run | str, *, wait: Seconds | None = None, change: Relaxation | None = None
    ) -> Steps[Run | Cluster]:
        """Provision what an earlier run asked for, as `provision`.

        It is launched at once where the earlier run was launched and agreed to as much. Blocks of
        places that had no stock for the earlier run are removed: they are tried again.

        Parameters
        ----------
        run
            A run of this session, or the id of any launch in the ledger.
        wait
            How long it waits for stock; as the spec says by default.
        change
            What is changed of what was asked for, as `relax` found it.

        Raises
        ------
        UsageError
            If the launch of an earlier kernel needs a value that is not known here.
        """
        earlier = (
            EarlierLaunch.of_run(run)
            if isinstance(run, Run)
            else EarlierLaunch.of_ledger(self._context, run)
        )
        self._clear_stock_blocks(earlier)
        if change is not None and change.blocks:
            self._context.engine.clear_blocks(change.blocks)
        inputs = earlier.inputs
        request = ProvisionRequest(
            earlier.spec if change is None or change.spec is None else change.spec,
            earlier.name,
            lambda: inputs.given,
            inputs.folder,
            OutputFolders.agreed(inputs.folder, inputs.outputs_to, earlier.name),
            say_nothing,
            agreed=False,
            wait=wait,
        )
        made = yield from self._existing_or_new(request)
        if isinstance(made, Cluster) or made.launched:
            return made  # it was there already
        agreed = earlier.consent
        is_agreed = agreed is not None and not made.done and made.driver.consent <= agreed
        is_agreed = is_agreed and (made.plan.is_simulated or not earlier.is_simulated)
        notes = earlier.notes
        if request.spec is not earlier.spec and change is not None:
            done = "launched" if is_agreed else "planned"
            notes = (f"{done} with {change.change}; the cell still says what it said", *notes)
        made.driver.context.progress.notes = (*notes, *made.driver.notes)
        if is_agreed:
            made.launch_soon()
        return made

    def _clear_stock_blocks(self, earlier: EarlierLaunch) -> None:
        from nbprov.provisioning.run.waiting.stock_wait import STOCK

        for candidate, failure in earlier.failures:
            if failure.cause in STOCK:
                self._context.engine.ledger.blocks.clear(candidate)

    def _provision(self, request: ProvisionRequest, *, may_replace: bool) -> Steps[Run | Cluster]:
        try:
            return (yield from self._existing_or_new(request))
        except DoesNotFit:
            if not may_replace:
                raise
        old = self._context.engine.cluster(request.name)
        beside = dataclasses.replace(request, name=next_name(request.name))
        made = yield from self._existing_or_new(beside)
        if isinstance(made, Cluster):
            yield from take_place(self._context, self._services, made, old)
        elif not made.replaces:
            made.replaces = old.cluster_id
            made.driver.context.progress.notes = (*made.driver.notes, note_of(old))
        return made

    def _existing_or_new(self, request: ProvisionRequest) -> Steps[Run | Cluster]:
        found = yield from existing(self._context, self._services, self._runs, request)
        if found is None:
            return (yield from self._new_run(request))
        if isinstance(found, Cluster):
            yield from self._open_ports(found, request.spec.expose)
        return found

    def _new_run(self, request: ProvisionRequest) -> Steps[Run]:
        given: SpecInputs = request.inputs()
        outputs = filled_outputs(request.spec, given.plain())
        check_outputs(outputs, request.outputs)
        wait = request.spec.wait.seconds if request.wait is None else request.wait
        plan = yield from self._plan_to_launch(request.spec, wait)
        driver = self._context.engine.prepare_run(
            request.name, request.spec, plan, agreed=request.agreed, wait=wait
        )
        driver.context.progress.notes = (
            *driver.notes,
            *target_notes(outputs, request.outputs),
            *sent_notes(request.spec, given, request.folder),
        )
        own = str(request.outputs.own)
        inputs = RunInputs(given, request.folder, own)
        run = Run(self._context, self._services, driver, inputs)
        earlier = self._runs.pop(request.name, None)
        if earlier is not None:
            earlier.supersede()
        self._runs[request.name] = run
        self._forget_old_runs()
        self._order.order_behind(run)
        return run

    def _forget_old_runs(self) -> None:
        # The ledger knows them all; a kernel that lives for weeks must not keep their plans.
        over = [name for name, run in self._runs.items() if run.done]
        for name in over[:-KEPT_RUNS]:
            del self._runs[name]

    def _plan_to_launch(self, spec: Spec, wait: Seconds) -> Steps[Plan]:
        """The plan of a spec; a run that waits for stock may begin where all stock is blocked."""
        from nbprov.provisioning.run.waiting.stock_wait import STOCK

        plan = yield from self._planner.plan(spec)
        if (
            plan.chosen is not None
            or not wait
            or not any(dropped.rule.kind is RuleKind.BLOCKED for dropped in plan.dropped)
        ):
            return plan
        blocks = [b for b in self._context.engine.ledger.blocks.standing() if b.cause not in STOCK]
        return (yield from self._planner.plan(spec, blocks=blocks))

    def _open_ports(self, cluster: Cluster, expose: ExposedPorts) -> Steps[None]:
        """Open the tunnels of the ports of a cluster that was found running."""
        view, row = cluster.view(), self._context.engine.cluster(cluster.name)
        if view.state is not ClusterState.RUNNING or not row.candidate.request.ports:
            return
        opened = yield from self._services.tunnels.ports_opened(row, expose)
        public = self._services.tunnels.public_words(view, expose)
        cluster.remarks = (*cluster.remarks, *public, *opened)
