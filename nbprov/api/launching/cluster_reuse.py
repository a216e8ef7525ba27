"""A cell that is run again on a cluster: guards and outputs that changed, set-up that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster
from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.services import Services
from nbprov.api.services.setups import ClusterSetup, is_set_up, is_wanted
from nbprov.api.services.views import guards_of
from nbprov.api.spec_inputs import SpecInputs, filled_outputs
from nbprov.api.steps import Steps, result
from nbprov.machines.files.output_targets import OutputFolders, check_outputs, target_notes
from nbprov.machines.python.requirement_files import PythonSource, read_source
from nbprov.model.clock import short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.model.spec import Spec

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
    with ledger.together():
        if config is not None:
            ledger.guards.set_all(row.run_id, row.candidate.count, config)
        ledger.runs.rewrite_spec(
            row.run_id, to_yaml(replace(stored, outputs=spec.outputs)), folder, own
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

    Guards and outputs that the spec changes are changed first, and set-up that is left is begun.

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
    context.requested[row.run_id] = spec, folder
    guards = change_guards(engine, row, stored, spec.guards)
    remarks.append((yield from result(engine.thread.call(with_readable_errors(guards)))))
    outputs = change_outputs(engine, row, stored, spec, folder, places)
    remarks.append((yield from result(engine.thread.call(with_readable_errors(outputs)))))
    under_way = services.setups.of_run(row.run_id)
    if under_way is not None and not under_way.done:
        cluster.setting_up = under_way
        return cluster
    setup = _begin_setup(context, services, row, spec, stored, given, folder)
    cluster.setting_up = setup
    if setup is None:
        if not _was_done(engine.ledger, row.run_id, spec, stored) and (spec.setup or spec.run):
            remarks.append(
                "setup and run are not run again on a running cluster;"
                f" %nbprov setup {row.name} does"
            )
        if spec.python is not None:
            remarks.append(f"python: as before: {spec.python}")
    cluster.remarks = tuple(filter(None, remarks))
    return cluster


def _begin_setup(
    context: Context,
    services: Services,
    row: ClusterRow,
    spec: Spec,
    stored: Spec,
    given: Callable[[], SpecInputs],
    folder: str,
) -> ClusterSetup | None:
    """Begin the set-up that a cell asks for and that is not done; None for nothing."""
    ledger, setups = context.engine.ledger, services.setups
    if is_wanted(spec) and not is_set_up(ledger, row.run_id, stored if is_wanted(stored) else spec):
        failed = ledger.events.has(row.run_id, EventKind.SETUP_FAILED)
        why = "setting it up failed before" if failed else ""
        return setups.set_up(row, spec, given(), folder, why)
    if not python_differs(ledger, row.run_id, read_source(spec.python, Path(folder), spec.workdir)):
        return None
    # Setup may have installed things into the old environment, so it runs again, in workdir, which
    # is copied too. Run is left alone.
    less = replace(spec, file_mounts=(), run="")
    return setups.set_up(
        row, less, given(), folder, "another Python environment is asked for", again=True
    )


def _was_done(ledger: Ledger, run_id: str, spec: Spec, stored: Spec) -> bool:
    """Whether the setup and run of a cell are those that were done last.

    A setup that was corrected since is not the one that was launched.
    """
    done = {job["kind"]: job["command"] for job in ledger.jobs.of_run(run_id)}
    return (spec.setup, spec.run) == (done.get("setup", stored.setup), done.get("run", stored.run))
