"""What bears the name of a provision already: a launch under way, or a cluster to use again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import DoesNotFit, with_readable_errors
from nbprov.api.operation import Operation
from nbprov.api.run import Run
from nbprov.api.services import Services
from nbprov.api.services.adopted_launches import (
    Say,
    is_same_spec,
    other_spec_error,
    until_settled,
    waiting_driver,
)
from nbprov.api.spec_inputs import RunInputs, SpecInputs
from nbprov.api.steps import Steps, result
from nbprov.api.uploads import unagreed_notes
from nbprov.machines.files.output_targets import OutputFolders
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.spec import Spec

from .agreed_setups import agreed_setups
from .cluster_reuse import agree_to_price, use_again

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow

_OVER = (ClusterState.ENDED, ClusterState.ENDING)


@dataclass(frozen=True, slots=True)
class ProvisionRequest:
    """What a cell asks for.

    Attributes
    ----------
    inputs
        Collects the values that the spec leaves to its caller.
    folder
        What relative paths are relative to.
    outputs
        Where outputs may be written to.
    say
        Called with a line that says what is waited for.
    agreed
        Whether Launch agrees to all that the spec's caps allow.
    wait
        How long a new run waits for stock; None for what the spec says.
    """

    spec: Spec
    name: str
    inputs: Callable[[], SpecInputs]
    folder: str
    outputs: OutputFolders
    say: Say
    agreed: bool
    wait: Seconds | None = None


def existing(
    context: Context, services: Services, runs: dict[str, Run], request: ProvisionRequest
) -> Steps[Run | Cluster | None]:
    """A launch under way, or a cluster that fits; None where there is neither.

    A stopped cluster is started.

    Raises
    ------
    LaunchUnderWay
        If a launch of that name is under way from another spec, or in another notebook.
    DoesNotFit
        If a cluster of that name is there and differs.
    """
    from nbprov.planning import fits

    name, spec = request.name, request.spec
    run = _under_way(runs.get(name), spec) or (yield from _joined(context, services, runs, request))
    if run is not None:
        return run
    failed = yield from until_settled(context.engine, name, request.say)
    if failed is not None:
        request.say(failed.message)
    row = yield from _observed(context, name, request.say)
    if row is None:
        return None
    differences = fits(spec, services.views.view(row))
    if differences:
        raise DoesNotFit(
            f"{name} is {row.state.value} and differs: {'; '.join(differences)}",
            hint=f"use another name; put a new one in its place: %%provision {name} --replace;"
            f" or end it first: %nbprov down {name}",
        )
    run = runs.get(name)
    if run is not None and run.run_id == row.run_id and not run.done:
        return run  # its setup goes on
    was_stopped = row.state is ClusterState.STOPPED
    if was_stopped:
        stopped = Cluster(context, services, row.cluster_id)
        yield from stopped.start(spec=spec, agreed=request.agreed).until_done()
        row = context.engine.cluster(name)
    elif request.agreed:
        agree_to_price(context.engine, row, spec)
        row = context.engine.cluster(name)
    cluster = yield from use_again(
        context, services, row, spec, request.inputs, request.folder, request.outputs
    )
    cluster.was_started = was_stopped
    return cluster


def _under_way(run: Run | None, spec: Spec) -> Run | None:
    """This session's launch of that name, if one is under way from the same spec."""
    from nbprov.spec import to_yaml

    if run is None or not run.is_under_way:
        return None
    # One that was launched and is still planned is about to begin.
    if run.state not in (RunState.PLANNED, RunState.LAUNCHING, RunState.WAITING):
        return None
    # How a run races is not compared: `--race` is of the line, and not of the spec.
    if to_yaml(run.spec) != to_yaml(replace(spec, race=run.spec.race)):
        raise other_spec_error(run.name)
    return run


def _joined(
    context: Context, services: Services, runs: dict[str, Run], request: ProvisionRequest
) -> Steps[Run | None]:
    """A wait for stock that an earlier kernel began and this one has adopted, as a run."""
    driver = yield from waiting_driver(context.engine, request.name, request.say)
    if driver is None:
        return None
    if not is_same_spec(driver.spec, request.spec):
        raise other_spec_error(request.name)
    driver.context.progress.spec = request.spec  # with the values that only the cell has
    inputs = RunInputs(request.inputs(), request.folder)
    # Another notebook's folder, or this kernel's environment, may have other things to send.
    progress, agreed = driver.context.progress, agreed_setups(context, driver.run_id)
    unsaid = unagreed_notes(request.spec, inputs.given, inputs.folder, agreed)
    progress.notes = (*progress.notes, *unsaid)
    run = Run(context, services, driver, inputs, launched=True)
    run.follow()
    runs[request.name] = run
    return run


def _observed(context: Context, name: str, say: Say) -> Steps[ClusterRow | None]:
    """The live cluster of this name, by its cloud's list of now. Waits for one that is ending."""
    engine = context.engine
    row = engine.ledger.clusters.named(name)
    if row is not None and row.state not in _OVER:
        observed = engine.lifecycle.observe(engine.cloud(row.candidate.offer.cloud))
        yield from result(engine.thread.call(with_readable_errors(observed)))
        row = engine.ledger.clusters.named(name)
    if row is not None and row.state is ClusterState.ENDING:
        say(f"{name} is being ended; waiting until that is confirmed …")
        ended = engine.thread.call(with_readable_errors(engine.lifecycle.down(row, row.reason)))
        yield from Operation(ended, f"ending {name}").until_done()
        row = engine.ledger.clusters.named(name)
    return None if row is None or row.state in _OVER else row
