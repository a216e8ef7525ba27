"""A cell that is run again on a cluster: guards and outputs that changed, set-up that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context, Proposal
from nbprov.api.errors import with_readable_errors
from nbprov.api.services import Services
from nbprov.api.services.setups import ClusterSetup, is_set_up, is_wanted
from nbprov.api.services.views import guards_of
from nbprov.api.spec_inputs import SpecInputs, filled_outputs
from nbprov.api.steps import Steps, result
from nbprov.api.uploads import unagreed_notes
from nbprov.machines.files.output_targets import OutputFolders, check_outputs, target_notes
from nbprov.machines.python.requirement_files import PythonSource, read_source
from nbprov.model.clock import short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.model.sources import Repository
from nbprov.model.spec import Spec

from .agreed_setups import agreed_setups, anchored, is_same_setup

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.provisioning.live_cluster import LiveCluster, Node
    from nbprov.remote.agent.config import GuardConfig


def python_differs(ledger: Ledger, run_id: str, source: PythonSource | None) -> bool:
    """Whether a spec asks for another Python environment than the cluster has."""
    made = [job for job in ledger.jobs.of_run(run_id) if job["kind"] == "python"]
    return source is not None and (
        not made or not source.is_wish_of(str(made[-1]["command"])) or made[-1]["exit_code"] != 0
    )


def agree_to_price(engine: Engine, row: ClusterRow, spec: Spec) -> None:
    """Agree to what a running cluster costs now, up to the cap of the spec that is run."""
    from nbprov.provisioning.run.pricing.consent import cap_of
    from nbprov.provisioning.supervision.guard_sync import price_whole

    request = replace(row.candidate.request, max_hourly=cap_of(spec))
    with engine.ledger.together():
        engine.ledger.clusters.reprice(row.cluster_id, replace(row.candidate, request=request))
        engine.ledger.runs.agree(row.run_id, price_whole(engine.ledger, row))


async def change_guards(engine: Engine, row: ClusterRow, spec: Spec, asked: Guards) -> str:
    """Give a running cluster the guards that a spec asks for, on every node.

    A spec that names no guards changes none.

    Returns
    -------
    str
        What changed, in a line; empty for nothing.

    Raises
    ------
    CloudError
        If its machines cannot be reached.
    LedgerError
        If the new guards cannot be written: then no agent was told of them.
    """
    from nbprov.provisioning.supervision.guard_config import (
        guard_config,
        guards_from,
        hold_known,
        kept,
    )
    from nbprov.provisioning.supervision.guard_sync import price_whole

    if asked == Guards():
        return ""
    ledger, capabilities = engine.ledger, engine.cloud(row.candidate.offer.cloud).capabilities
    hold = hold_known(ledger, row.run_id)
    config = guard_config(
        asked, capabilities, row.candidate, spent=ledger.prices.cost(row.run_id), hold=hold
    )
    # A machine that replaced a lost one may have another price.
    config = replace(config, hourly=price_whole(ledger, row))
    stored = kept(config, asked)
    before, after = guards_of(ledger, row.run_id, spec), guards_from(stored)
    if _rules(before) == _rules(after):
        return ""
    live = await engine.attach(row.name)
    # Written first: agents are sent what the ledger has, and would lose again what it lacks.
    ledger.guards.set_all(row.run_id, row.candidate.count, stored)
    said = f"guards of {row.name} changed: {after.words()}; before: {before.words()}"
    said += await _tell_guards(engine, row, live, config)
    engine.changed()
    if (
        capabilities.own_timer
        and before.max_lifetime != after.max_lifetime
        and before.max_lifetime is not None
    ):
        lifetime = short_duration(before.max_lifetime)
        said += f"; the cloud's own timer still ends it {lifetime} after its launch"
    return said


async def _tell_guards(
    engine: Engine, row: ClusterRow, live: LiveCluster, config: GuardConfig
) -> str:
    """Send each agent the guards that the ledger has by now.

    Returns what to add to a line where an agent did not take them: `GuardSync` sends them again.
    """
    from nbprov.provisioning.live_cluster import agent_of
    from nbprov.provisioning.supervision.guard_config import of_node

    async def tell(node: Node) -> str:
        number = node.instance.node
        try:
            await agent_of(node).set_guards(
                of_node(config, engine.ledger, row.run_id, row.token, number)
            )
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            why = str(error).partition("\n")[0]
            return f"; node {number} did not take its guards yet, and is told again: {why}"
        return ""

    return next(filter(None, await asyncio.gather(*map(tell, live.present))), "")


def _rules(guards: Guards) -> tuple[object, ...]:
    return guards.autostop, guards.max_lifetime, guards.budget, guards.warn, guards.at_limit


async def change_outputs(
    engine: Engine, row: ClusterRow, stored: Spec, spec: Spec, folder: str, places: OutputFolders
) -> str:
    """Give a running cluster the outputs of a cell's spec; what changed, in a line."""
    from nbprov.provisioning.supervision.guard_config import hold_known, hold_of
    from nbprov.remote.agent.config import GuardConfig
    from nbprov.spec import to_yaml

    def pairs(of: Spec) -> list[tuple[str, str]]:
        return [(mount.source, mount.target) for mount in of.outputs]

    ledger, own = engine.ledger, _own_folder(engine.ledger, row, stored, places)
    is_as_before = pairs(spec) == pairs(stored) and own == _agreed(ledger, row)
    if not spec.outputs or is_as_before:
        return ""
    known, config, said = ledger.guards.get(row.run_id), None, ""
    if (
        known is not None
        and "poweroff" in known[0]
        and hold_known(ledger, row.run_id) != hold_of(spec)
    ):
        config = {**known[0], "outputs": {"hold_seconds": hold_of(spec)}}
        live = await engine.attach(row.name)
    run = ledger.runs.get(row.run_id)
    # From now on the folder is that of the outputs: sources must not move with it.
    anchor = stored if run is None or run.folder == folder else anchored(stored, run.folder)
    with ledger.together():
        if config is not None:
            ledger.guards.set_all(row.run_id, row.candidate.count, config)
        ledger.runs.rewrite_spec(
            row.run_id, to_yaml(replace(anchor, outputs=spec.outputs)), folder, own
        )
    if config is not None:
        said = await _tell_guards(engine, row, live, GuardConfig.from_json(config))
    lines = target_notes(spec, OutputFolders(places.notebook, Path(own)))
    return f"outputs of {row.name} are changed: {'; '.join(lines)}{said}"


def _agreed(ledger: Ledger, row: ClusterRow) -> str:
    run = ledger.runs.get(row.run_id)
    return run.outputs_to if run is not None else ""


def _own_folder(ledger: Ledger, row: ClusterRow, stored: Spec, places: OutputFolders) -> str:
    """The folder for outputs: the one that is named now, else the one that has some."""
    is_kept = stored.outputs and not places.is_named
    return (_agreed(ledger, row) if is_kept else "") or str(places.own)


def _taken_back(row: ClusterRow) -> str:
    """What is said of an end or a stop that has not begun and that this use takes back."""
    if row.pending is None:
        return ""
    verb, word = ("ended", "down") if row.pending.is_end else ("stopped", "stop")
    return (
        f"{row.name} was about to be {verb}, and goes on since this cell uses it:"
        f" %nbprov {word} {row.name} asks for it again"
    )


def use_again(
    context: Context,
    services: Services,
    row: ClusterRow,
    spec: Spec,
    given: Callable[[], SpecInputs],
    folder: str,
    places: OutputFolders,
) -> Steps[Cluster]:
    """The handle of a running cluster that fits a spec.

    Guards and outputs that the spec changes are changed first, and set-up that is left is begun,
    unless it would send what nobody agreed to.

    Raises
    ------
    UsageError
        If outputs would go to where they may not.
    """
    engine, stored = context.engine, context.spec_of(row.run_id)
    cluster = Cluster(context, services, row.cluster_id)
    if row.state is not ClusterState.RUNNING:
        return cluster
    own = Path(_own_folder(engine.ledger, row, stored, places))
    check_outputs(filled_outputs(spec, {}), replace(places, own=own))
    remarks = [_taken_back(row)]
    engine.lifecycle.take_back(row)
    agreed = agreed_setups(context, row.run_id)
    context.proposed[row.run_id] = Proposal(spec, folder)
    if is_same_setup(spec, agreed[0].spec):
        # The cell may have values that are stored nowhere.
        context.requested[row.run_id] = spec, agreed[0].folder
    guards = change_guards(engine, row, stored, spec.guards)
    remarks.append((yield from result(engine.thread.call(with_readable_errors(guards)))))
    outputs = change_outputs(engine, row, stored, spec, folder, places)
    remarks.append((yield from result(engine.thread.call(with_readable_errors(outputs)))))
    under_way = services.setups.of_run(row.run_id)
    if under_way is not None and not under_way.done:
        cluster.setting_up = under_way
        return cluster
    given = cache(given)
    due = _due_setup(engine.ledger, row.run_id, spec, stored, given, folder)
    if due is not None:
        cluster.setting_up, said = _begin_setup(context, services, row, due, agreed, given)
        remarks += said
    else:
        remarks += _left_alone(engine.ledger, row, spec, stored)
    cluster.remarks = tuple(filter(None, remarks))
    return cluster


def _left_alone(ledger: Ledger, row: ClusterRow, spec: Spec, stored: Spec) -> list[str]:
    """What is said where a cell changes nothing of the set-up."""
    remarks = []
    if not _was_done(ledger, row.run_id, spec, stored) and (spec.setup or spec.run):
        remarks.append(
            f"setup and run are not run again on a running cluster; %nbprov setup {row.name} does"
        )
    if spec.python is not None:
        remarks.append(f"python: as before: {spec.python}")
    return remarks


@dataclass(frozen=True, slots=True)
class _DueSetup:
    """The set-up that a cell asks for and that is not done.

    Attributes
    ----------
    asked
        All that the cell asks for, and its folder.
    spec
        The part of it that is done now.
    why
        Why it is done, in a phrase.
    again
        Whether setup runs also where it was done before.
    """

    asked: Proposal
    spec: Spec
    why: str
    again: bool = False


def _due_setup(
    ledger: Ledger,
    run_id: str,
    spec: Spec,
    stored: Spec,
    given: Callable[[], SpecInputs],
    folder: str,
) -> _DueSetup | None:
    asked = Proposal(spec, folder)
    if is_wanted(spec) and not is_set_up(ledger, run_id, stored if is_wanted(stored) else spec):
        failed = ledger.events.has(run_id, EventKind.SETUP_FAILED)
        return _DueSetup(asked, spec, "setting it up failed before" if failed else "")
    if not python_differs(ledger, run_id, _python_source(spec, given, folder)):
        return None
    # Setup may have installed things into the old environment, so it runs again, in workdir, which
    # is copied too. Run is left alone.
    less = replace(spec, file_mounts=(), run="")
    return _DueSetup(asked, less, "another Python environment is asked for", again=True)


def _python_source(spec: Spec, given: Callable[[], SpecInputs], folder: str) -> PythonSource | None:
    """What a cell's Python environment is made from.

    Values are asked for only where the clone that has the lock depends on them.
    """
    from nbprov.spec import variables_in

    workdir = spec.workdir
    if isinstance(workdir, Repository) and variables_in(workdir.url + workdir.ref):
        return given().python
    return read_source(spec.python, Path(folder), workdir)


def _begin_setup(
    context: Context,
    services: Services,
    row: ClusterRow,
    due: _DueSetup,
    agreed: Sequence[Proposal],
    given: Callable[[], SpecInputs],
) -> tuple[ClusterSetup | None, tuple[str, ...]]:
    """Begin a set-up, or say why it is not begun.

    Nobody has pressed Launch for this cell. What it sends from elsewhere than the notebook's
    folder, or of this kernel's environment, is not sent unless that was agreed to before.
    """
    asked, inputs = due.asked, given()
    unsaid = unagreed_notes(asked.spec, inputs, asked.folder, agreed)
    if unsaid:
        context.proposed[row.run_id] = replace(asked, given=inputs)
        done = (
            f"so nothing was sent and the cell's set-up was not begun: %nbprov setup {row.name}"
            " does both"
        )
        return None, (*unsaid, done)
    context.requested[row.run_id] = asked.spec, asked.folder
    setup = services.setups.set_up(row, due.spec, inputs, asked.folder, due.why, again=due.again)
    return setup, ()


def _was_done(ledger: Ledger, run_id: str, spec: Spec, stored: Spec) -> bool:
    """Whether the setup and run of a cell are those that were done last.

    A setup that was corrected since is not the one that was launched. A run that was skipped, which
    has no command in the ledger, may be written down after the one that was done.
    """
    done = {job["kind"]: job["command"] for job in ledger.jobs.of_run(run_id) if job["command"]}
    return (spec.setup, spec.run) == (done.get("setup", stored.setup), done.get("run", stored.run))
