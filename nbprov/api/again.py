"""What a cell that is run again does to the cluster it finds: guards that changed, and set-up that was never done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.model.clusters import ClusterState
from nbprov.model.spec import Guards, Spec

from .cluster import Cluster, Done
from .errors import readably
from .given import Given

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.remote.agent.values import Environment

    from .session import Session

log = logging.getLogger("nbprov.api")

SET_UP = "set-up"
"""The event of a run whose files, setup and run are done, or handed to the machine."""


def note_set_up(ledger: Ledger, run_id: str) -> None:
    """Write down that a cluster is set up."""
    ledger.note(run_id, SET_UP, "files are copied, setup is done, run is started")


def is_set_up(ledger: Ledger, run_id: str, spec: Spec) -> bool:
    """Whether nothing of what its spec wants done on a cluster is left to do. A setup that failed was done."""
    if not _wants(spec) or any(kind == SET_UP for _, kind, _ in ledger.events(run_id)):
        return True
    jobs = {job["kind"]: job["exit_code"] for job in ledger.jobs(run_id)}
    if jobs.get("setup"):
        return True
    if spec.run:
        return "run" in jobs
    return bool(spec.setup) and spec.engine is None and jobs.get("setup") is not None


def _wants(spec: Spec) -> bool:
    return bool(spec.workdir or spec.file_mounts or spec.setup or spec.run or spec.engine)


class SettingUp(Done):
    """Files, setup and run on a cluster where nobody has done them: the kernel that launched it ended first.

    Attributes
    ----------
    message
        What goes on, in a line.
    """

    def __init__(self, session: Session, row: ClusterRow, spec: Spec, given: Given, folder: str) -> None:
        self.message = "not set up yet: its kernel ended first"
        self.on_report: Callable[[str], None] = lambda text: None
        self._session, self._given = session, given
        work = readably(self._bring_up(row, spec, given, folder))
        super().__init__(session.engine.thread.call(work), f"setting {row.name} up")

    async def _bring_up(self, row: ClusterRow, spec: Spec, given: Given, folder: str) -> None:
        from nbprov.machines.bringup import bring_up

        engine = self._session.engine
        live = await engine.attach(row.name)
        await bring_up(live, spec, given.everything(), folder, engine.ledger, self._report)
        note_set_up(engine.ledger, row.run_id)
        if spec.engine is not None:
            await self._session.engine_up(live, spec.engine, self.environment(), self._report)

    def environment(self) -> Environment:
        """The envs and secrets that were given for it."""
        return self._given.everything()

    def hide_secrets(self, text: str) -> str:
        """The text with the secrets of this setup and run blotted out."""
        from nbprov.machines.bringup import masker

        return masker(self._given.everything())(text)

    def _report(self, text: str) -> None:
        self.message = text
        self.on_report(text)


def guards_of(ledger: Ledger, run_id: str, spec: Spec) -> Guards:
    """The guards that a cluster has: what its agents were told last, else those of its spec."""
    from nbprov.provisioning.guards import guards_known

    return guards_known(ledger, run_id) or spec.guards


async def change_guards(engine: Engine, row: ClusterRow, spec: Spec, asked: Guards) -> str:
    """Give a running cluster the guards that a spec asks for, on every node; what changed in a line, or nothing.

    A spec that says nothing of guards changes none.

    Raises
    ------
    CloudError
        If its machines cannot be reached.
    """
    from nbprov.machines.cells import agent_of
    from nbprov.provisioning.guards import guard_config, guards_from, kept

    if asked == Guards():
        return ""
    ledger, capabilities = engine.ledger, engine.cloud(row.candidate.offer.cloud).capabilities
    config = guard_config(asked, capabilities, row.candidate, spent=ledger.cost(row.run_id))
    stored = kept(config, asked)
    before, after = guards_of(ledger, row.run_id, spec), guards_from(stored)
    if _rules(before) == _rules(after):
        return ""
    live = await engine.attach(row.name)
    await asyncio.gather(*(agent_of(node).set_guards(config) for node in live.nodes))
    for node in live.nodes:
        ledger.set_guard(row.run_id, node.instance.node, stored, {})
    engine.changed()
    said = f"guards of {row.name} changed: {after.words()}; before: {before.words()}"
    if capabilities.own_timer and before.max_lifetime != after.max_lifetime and before.max_lifetime is not None:
        said += f"; the cloud's own timer still ends it {_age(before.max_lifetime)} after its launch"
    return said


def _rules(guards: Guards) -> tuple[object, ...]:
    return guards.autostop, guards.max_lifetime, guards.budget, guards.warn, guards.at_limit


def _age(seconds: float) -> str:
    from nbprov.model.clock import short_duration

    return short_duration(seconds)


def use_again(session: Session, row: ClusterRow, spec: Spec, stored: Spec, given: Callable[[], Given], folder: str) -> Cluster:
    """The handle of a running cluster that fits a spec, after what the spec changes or adds was seen to."""
    from nbprov.runtime.waiting import wait_for

    engine = session.engine
    cluster = Cluster(session, row.name, cluster_id=row.cluster_id)
    if row.state is not ClusterState.RUNNING:
        return cluster
    remarks = []
    changed = wait_for(engine.thread.call(readably(change_guards(engine, row, stored, spec.guards))))
    if changed:
        remarks.append(changed)
    under_way = session.setting_up.get(row.run_id)
    if under_way is not None and not under_way.done:
        cluster.setting_up = under_way
    elif _wants(spec) and not is_set_up(engine.ledger, row.run_id, stored):
        cluster.setting_up = session.setting_up[row.run_id] = SettingUp(session, row, spec, given(), folder)
    elif (spec.setup, spec.run) != (stored.setup, stored.run) and (spec.setup or spec.run):
        remarks.append("setup and run are not run again on a running cluster")
    cluster.remarks = tuple(remarks)
    return cluster
