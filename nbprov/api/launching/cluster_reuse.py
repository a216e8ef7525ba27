"""What a cell that is run again does to the cluster it finds: guards that changed, and set-up that was never done."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster, Done
from nbprov.api.errors import readably
from nbprov.api.spec_inputs import Ask, Given, collect
from nbprov.machines.python.requirement_files import PythonSource, read_source
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import UsageError
from nbprov.model.guards import Guards
from nbprov.model.spec import Spec

from .setup_failure import EVENT, SET_UP, after_failure

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.machines.masking import Masker
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")

TOLD = 500
"""Of what was told before anybody listened."""


def note_set_up(ledger: Ledger, run_id: str) -> None:
    """Write down that a cluster is set up."""
    ledger.events.add(run_id, SET_UP, "files are copied, setup is done, run is started")


def is_set_up(ledger: Ledger, run_id: str, spec: Spec) -> bool:
    """Whether nothing of what its spec wants done on a cluster is left to do. What failed is left to do."""
    if not _wants(spec):
        return True
    last = max(
        (
            n
            for n, (_, kind, _) in enumerate(ledger.events.of_run(run_id))
            if kind in (SET_UP, EVENT)
        ),
        default=-1,
    )
    if last >= 0:
        return ledger.events.of_run(run_id)[last][1] == SET_UP
    jobs = {job["kind"]: job["exit_code"] for job in ledger.jobs.of_run(run_id)}
    if jobs.get("setup"):
        return False
    if spec.run:
        return "run" in jobs
    return bool(spec.setup) and spec.engine is None and jobs.get("setup") is not None


def _wants(spec: Spec) -> bool:
    return bool(
        spec.workdir or spec.file_mounts or spec.setup or spec.run or spec.python or spec.engine
    )


def python_differs(ledger: Ledger, run_id: str, source: PythonSource | None) -> bool:
    """Whether another Python environment is asked for than the cluster has."""
    made = [job for job in ledger.jobs.of_run(run_id) if job["kind"] == "python"]
    return source is not None and (
        not made or not source.is_wish_of(str(made[-1]["command"])) or made[-1]["exit_code"] != 0
    )


class SettingUp(Done):
    """Files, Python, setup and run on a cluster where they are not done: its kernel ended first, they failed, or others are asked for.

    Attributes
    ----------
    message
        What goes on, in a line.
    why
        Why it is done, in a phrase.
    spec, given, folder
        What is done, with which values, and what its paths are relative to.
    """

    def __init__(
        self,
        session: Session,
        row: ClusterRow,
        spec: Spec,
        given: Given,
        folder: str,
        why: str = "",
        again: bool = False,
    ) -> None:
        self.message = self.why = why or "it was never set up"
        self._told: deque[tuple[str, str]] = deque(maxlen=TOLD)
        self._hear: Callable[[str, str], None] = lambda text, line: None
        self._telling = threading.Lock()
        self.spec, self.given, self.folder = spec, given, folder
        self._session, self._again = session, again
        work = readably(self._bring_up(row, spec, given, folder))
        super().__init__(session.engine.thread.call(work), f"setting {row.name} up")

    async def _bring_up(self, row: ClusterRow, spec: Spec, given: Given, folder: str) -> None:
        from nbprov.machines.setup.cluster_setup import bring_up

        engine = self._session.engine
        try:
            live = await engine.attach(row.name)
            values = given.everything()
            await bring_up(
                live,
                spec,
                values,
                folder,
                engine.ledger,
                self._report,
                home=engine.home,
                python=given.python,
                again=self._again,
            )
        except Exception as error:
            raise await after_failure(
                self._session, row.run_id, spec, error, self._report
            ) from None
        note_set_up(engine.ledger, row.run_id)
        if spec.engine is not None:
            await self._session.engine_up(live, spec.engine, self.environment, self._report)

    def environment(self) -> Environment:
        """The envs and secrets that were given for it."""
        return self.given.everything()

    def masker(self) -> Masker:
        """What blots out the secrets of this setup and run."""
        from nbprov.machines.masking import masker

        return masker(self.given.everything())

    def _report(self, text: str, line: str = "", /) -> None:
        self.message = text
        with self._telling:
            self._told.append((text, line))
            self._hear(text, line)

    def listen(self, hear: Callable[[str, str], None]) -> None:
        """Call a function with what goes on and, where it is one, the line of the log that it is about; what was told before comes first.

        On the engine's thread, but for what was told before.
        """
        with self._telling:
            for text, line in self._told:
                hear(text, line)
            self._hear = hear


def guards_of(ledger: Ledger, run_id: str, spec: Spec) -> Guards:
    """The guards that a cluster has: what its agents were told last, else those of its spec."""
    from nbprov.provisioning.supervision.guard_config import guards_known

    return guards_known(ledger, run_id) or spec.guards


async def change_guards(engine: Engine, row: ClusterRow, spec: Spec, asked: Guards) -> str:
    """Give a running cluster the guards that a spec asks for, on every node; what changed in a line, or nothing.

    A spec that says nothing of guards changes none.

    Raises
    ------
    CloudError
        If its machines cannot be reached.
    """
    from nbprov.machines.agents import agent_of
    from nbprov.provisioning.supervision.guard_config import (
        guard_config,
        guards_from,
        hold_known,
        kept,
        of_node,
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
    await asyncio.gather(
        *(
            agent_of(node).set_guards(
                of_node(config, ledger, row.run_id, row.token, node.instance.node)
            )
            for node in live.present
        )
    )
    for node in live.nodes:
        ledger.guards.set(row.run_id, node.instance.node, stored, {})
    engine.changed()
    said = f"guards of {row.name} changed: {after.words()}; before: {before.words()}"
    if (
        capabilities.own_timer
        and before.max_lifetime != after.max_lifetime
        and before.max_lifetime is not None
    ):
        said += (
            f"; the cloud's own timer still ends it {_age(before.max_lifetime)} after its launch"
        )
    return said


def _rules(guards: Guards) -> tuple[object, ...]:
    return guards.autostop, guards.max_lifetime, guards.budget, guards.warn, guards.at_limit


def _age(seconds: float) -> str:
    from nbprov.model.clock import short_duration

    return short_duration(seconds)


def use_again(
    session: Session,
    row: ClusterRow,
    spec: Spec,
    stored: Spec,
    given: Callable[[], Given],
    folder: str,
) -> Cluster:
    """The handle of a running cluster that fits a spec, after what the spec changes or adds was seen to."""
    from nbprov.runtime.waiting import wait_for

    engine = session.engine
    cluster = Cluster(session, row.name, cluster_id=row.cluster_id)
    if row.state is not ClusterState.RUNNING:
        return cluster
    remarks = []
    engine.lifecycle.take_back(row)
    session.asked[row.run_id] = spec, folder
    changed = wait_for(
        engine.thread.call(readably(change_guards(engine, row, stored, spec.guards)))
    )
    if changed:
        remarks.append(changed)
    if said := wait_for(
        engine.thread.call(readably(session.takings.change(row, stored, spec, folder)))
    ):
        remarks.append(said)
    under_way = session.setting_up.get(row.run_id)
    if under_way is not None and not under_way.done:
        cluster.setting_up = under_way
        return cluster
    work = _left_to_do(session, row, spec, stored, given, folder)
    if work is not None:
        cluster.setting_up = session.setting_up[row.run_id] = work
    elif not _was_done(engine.ledger, row.run_id, spec, stored) and (spec.setup or spec.run):
        remarks.append(
            f"setup and run are not run again on a running cluster; %nbprov setup {row.name} does"
        )
    if work is None and spec.python is not None:
        remarks.append(f"python: as before: {spec.python}")
    cluster.remarks = tuple(remarks)
    return cluster


def _left_to_do(
    session: Session,
    row: ClusterRow,
    spec: Spec,
    stored: Spec,
    given: Callable[[], Given],
    folder: str,
) -> SettingUp | None:
    """What a cell wants done on a running cluster that is not; None for nothing."""
    ledger = session.engine.ledger
    if _wants(spec) and not is_set_up(ledger, row.run_id, stored if _wants(stored) else spec):
        failed = any(kind == EVENT for _, kind, _ in ledger.events.of_run(row.run_id))
        return SettingUp(
            session, row, spec, given(), folder, "setting it up failed before" if failed else ""
        )
    if not python_differs(ledger, row.run_id, read_source(spec.python, Path(folder), spec.workdir)):
        return None
    # Setup may have put things into the old environment. It runs in workdir, which goes along; run is left alone.
    less = replace(spec, file_mounts=(), run="")
    return SettingUp(
        session, row, less, given(), folder, "another Python environment is asked for", again=True
    )


def _was_done(ledger: Ledger, run_id: str, spec: Spec, stored: Spec) -> bool:
    """Whether the setup and run of a cell are those that were done last: a corrected setup is not the one that was launched."""
    done = {job["kind"]: job["command"] for job in ledger.jobs.of_run(run_id)}
    return (spec.setup, spec.run) == (done.get("setup", stored.setup), done.get("run", stored.run))


def set_up_again(session: Session, row: ClusterRow, ask: Ask) -> SettingUp:
    """Set a running cluster up again, on request: files, Python and setup; run only where it was never started.

    As its cell last said in this kernel, else as it was launched.

    Raises
    ------
    UsageError
        If it does not run, if there is nothing to do, or if a value that only the launch had is found nowhere.
    """
    if row.state is not ClusterState.RUNNING:
        raise UsageError(
            f"{row.name} is {row.state.value}",
            hint=f"%nbprov start {row.name} brings a stopped cluster back",
        )
    earlier, run = session.setting_up.get(row.run_id), session.runs.get(row.name)
    if earlier is not None and not earlier.done:
        return earlier
    if run is not None and run.run_id == row.run_id and not run.done:
        raise UsageError(
            f"{row.name} is being set up already",
            hint="its panel shows how far it is",
            code="setup.under-way",
        )
    launched = session.engine.ledger.runs.get(row.run_id)
    stored = session.spec_of(row.run_id), launched.folder if launched is not None else ""
    spec, folder = session.asked.get(row.run_id, stored)
    if not _wants(spec):
        raise UsageError(
            f"nothing of {row.name} is to be set up",
            hint="its cell names no workdir, file_mounts, python, setup or run",
        )
    if earlier is not None and (earlier.spec, earlier.folder) == (spec, folder):
        given = replace(earlier.given, python=read_source(spec.python, Path(folder), spec.workdir))
    else:
        given = collect(spec, {}, ask, folder)
    session.setting_up[row.run_id] = SettingUp(
        session, row, spec, given, folder, "set up again, as you asked", again=True
    )
    return session.setting_up[row.run_id]
