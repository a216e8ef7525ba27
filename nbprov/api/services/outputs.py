"""Outputs of a session's clusters: taken before an end, at its guards' word, or when asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api.errors import readable
from nbprov.model.clock import Seconds, iso
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.spec import Spec
from nbprov.provisioning.supervision.desired_state import ASKED, ASKED_BARE, TO_STOP, intent_of

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.machines.files.outputs import Taking
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.provisioning.live_cluster import LiveCluster

log = logging.getLogger("nbprov.api")

REACH_SECONDS: Seconds = 120.0
"""How long a machine may be silent before its end goes on without its outputs: a line that was away comes back in less. A machine that is silent
for longer cannot be vouched for: nobody knows whether its guards run, so keeping it could cost for ever, and its files cannot be had."""
REACH_PAUSE: Seconds = 5.0
"""Between two tries of that."""
CLOUD_SECONDS: Seconds = 45.0
"""How long its cloud is asked before a machine counts as silent: twice a listing's own limit, since the watcher's may come first."""
STOP_SECONDS: Seconds = 600.0
"""How long a stop waits for outputs: the disk is kept, so nothing is lost by going on."""
FRESH_SECONDS: Seconds = STOP_SECONDS + 300.0
"""What was pulled so long before a stop was pulled for it; what was pulled earlier may be half of what is there."""
OUTPUTS = "outputs"
"""The event of a pull."""
_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class NotReached(NbprovError):
    """The machines of a cluster do not answer."""

    code = "outputs.not-reached"


class UsedAgain(NbprovError):
    """A cluster that was to be ended or stopped, and that somebody wants otherwise meanwhile."""

    code = "cluster.used-again"


class Takings:
    """The pulls of a session, one a cluster at a time: whoever wants a second one joins the first. Coroutines run on the engine's thread."""

    def __init__(self, session: Session, engine: Engine) -> None:
        self._session, self._engine = session, engine
        self._tasks: dict[str, asyncio.Task[Taking]] = {}
        self._views: dict[str, Taking] = {}

    def view(self, cluster_id: str) -> Taking | None:
        """The pull of a cluster that goes on, or the last one. Any thread."""
        return self._views.get(cluster_id)

    def wanted(self, run_id: str) -> bool:
        """Whether a run's spec names outputs, or cannot be read here and its machines wait for some. Any thread."""
        from nbprov.provisioning.supervision.guard_config import hold_known

        return bool(self._session.spec_of(run_id).outputs) or (
            not self._session.can_read_spec(run_id)
            and hold_known(self._engine.ledger, run_id) > 0.0
        )

    def words(self, row: ClusterRow) -> list[str]:
        """What became of a cluster's outputs, in a line; nothing where there are none. Any thread."""
        if not self.wanted(row.run_id):
            return []
        from nbprov.provisioning.supervision.stopped_expiry import left_note

        task, now = self._tasks.get(row.cluster_id), self._views.get(row.cluster_id)
        if task is not None and not task.done() and now is not None:
            from nbprov.machines.files.folder_sync import size_words

            return [f"outputs: being pulled, {size_words(now.sent)} so far"]
        if self.are_left(row):
            return [f"outputs: {left_note(self._engine.ledger, row)}"]
        told = [
            (at, text)
            for at, kind, text in self._engine.ledger.events.of_run(row.run_id)
            if kind == OUTPUTS
        ]
        when = iso(told[-1][0]).replace("T", " ").replace("Z", " UTC") if told else ""
        return [f"outputs: {told[-1][1]}, {when}"] if told else ["outputs: not pulled yet"]

    # ------------------------------------------------------------ taking

    async def take(self, row: ClusterRow) -> Taking:
        """Bring the outputs of a cluster here; what could not be brought is in `Taking.left`.

        Raises
        ------
        NotReached
            If its machines do not answer.
        """
        task = self._tasks.get(row.cluster_id)
        if task is None or task.done():
            task = asyncio.create_task(self._take(row))
            self._tasks[row.cluster_id] = task
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return await asyncio.shield(task)

    async def _take(self, row: ClusterRow) -> Taking:
        from nbprov.machines.files.outputs import Taking, pull_outputs
        from nbprov.machines.liveness import Answers

        engine = self._engine
        taking = self._views[row.cluster_id] = Taking(row.name)
        run = engine.ledger.runs.get(row.run_id)
        spec, folder = self._spec(row), Path(run.folder if run is not None and run.folder else ".")
        try:
            if not self._session.can_read_spec(row.run_id):
                raise NbprovError(
                    "its spec is of another release, so which outputs it has is not known here",
                    code="outputs.unknown",
                )
            async with engine.lifecycle.leased(row):
                live = await self._reached(row)
                answers = Answers(REACH_SECONDS, lambda: self._can_be_asked(row))
                await pull_outputs(live, spec, folder, engine.home, taking, engine.changed, answers)
            if taking.silent and not taking.left:
                raise NotReached(
                    f"{row.name} fell silent under the pull of its outputs{taking.silent_words()}; {taking.words()} came"
                )
        except asyncio.CancelledError:
            self._note(row, f"the pull was broken off; {taking.words()} came")
            raise
        except NotReached as error:
            self._note(row, f"not pulled: {error.message}")
            raise
        except Exception as error:
            self._note(row, f"not pulled: {type(error).__name__}: {error}")
            raise
        finally:
            taking.is_over = True
        self._note(
            row,
            f"pulled, {taking.words()}"
            if taking.is_whole
            else f"not all pulled: {taking.left_words()}",
        )
        return taking

    async def _reached(self, row: ClusterRow) -> LiveCluster:
        """Its machines, once they answer. A line that is away has `REACH_SECONDS` to come back, counted while its cloud can be asked."""
        while True:
            try:
                return await self._reached_once(row)
            except NotReached:
                now = self._engine.ledger.clusters.by_id(row.cluster_id)
                if now is None or now.state not in _UP or await self._can_be_asked(row):
                    raise

    async def _can_be_asked(self, row: ClusterRow) -> bool:
        """Whether the cloud of a silent machine answers: else it may be this computer that is out of reach, and nothing could be ended either."""
        from nbprov.provisioning.supervision.outages import REFUSALS

        lifecycle = self._engine.lifecycle
        try:
            async with asyncio.timeout(CLOUD_SECONDS):
                await lifecycle.observe(self._engine.cloud(row.candidate.offer.cloud))
        except (CloudError, TimeoutError, OSError) as error:
            log.info("%s: silent, and its cloud cannot be asked either: %s", row.name, error)
            # An account that is refused is no matter of this computer's network, and does not pass by itself.
            return isinstance(error, CloudError) and error.failure.cause in REFUSALS
        except NbprovError as error:  # its adapter is not installed here, say: nothing to wait for
            log.info("%s: silent, and its cloud cannot be asked: %s", row.name, error)
        return True

    async def _reached_once(self, row: ClusterRow) -> LiveCluster:
        from nbprov.machines.agents import agent_of

        engine = self._engine
        last: BaseException | None = None
        try:
            async with asyncio.timeout(REACH_SECONDS):
                while True:
                    # Somebody may have given it another name meanwhile.
                    now = engine.ledger.clusters.by_id(row.cluster_id) or row
                    try:
                        live = await engine.attach(now.name)
                        await agent_of(live.head).status()
                        return live
                    except (CloudError, NbprovError, TimeoutError, OSError) as error:
                        last = error
                        if now.state not in _UP:
                            break  # somebody else stopped or ended it
                    await asyncio.sleep(REACH_PAUSE)
        except TimeoutError as error:
            last = last or error
        why = getattr(readable(last), "message", "") if last is not None else ""
        told = f"{row.name} cannot be reached for its outputs: {why or f'no answer within {REACH_SECONDS:g} s'}"
        hint = (
            f"start it: %nbprov start {row.name}"
            if row.state is ClusterState.STOPPED
            else "%clusters shows its state; try again"
        )
        raise NotReached(told, hint=hint) from last

    def _spec(self, row: ClusterRow) -> Spec:
        from nbprov.spec import fill_paths

        spec = self._session.spec_of(row.run_id)
        run = self._session.runs.get(row.name)
        given = run.plain_values() if run is not None and run.run_id == row.run_id else {}
        values = {
            **{name: value for name, value in spec.envs.items() if value is not None},
            **given,
        }
        return fill_paths(replace(spec, file_mounts=()), values)

    def _note(self, row: ClusterRow, text: str) -> None:
        try:
            self._engine.ledger.events.add(row.run_id, OUTPUTS, text, row.token)
        except Exception:  # the files are here, or are not: that is what counts
            log.exception("%s: %s", row.name, text)
        self._engine.changed()

    def drop(self, cluster_id: str) -> None:
        """Break a pull off. On the engine's thread."""
        task = self._tasks.get(cluster_id)
        if task is not None:
            task.cancel()

    async def for_guard(self, row: ClusterRow, seconds: Seconds) -> bool:
        """Take the outputs of a cluster whose guard is due; whether all came in time. One that a person asked for goes on."""
        if not self.wanted(row.run_id):
            return True
        joined = self._tasks.get(row.cluster_id)
        is_ours = joined is None or joined.done()
        try:
            async with asyncio.timeout(seconds):
                return (await self.take(row)).is_whole
        except (NotReached, TimeoutError):
            return False
        finally:
            if is_ours:
                self.drop(row.cluster_id)

    # ------------------------------------------------------------ before an end

    async def then_down(
        self, row: ClusterRow, end: Coroutine[Any, Any, None], *, outputs: bool, asked: bool = False
    ) -> None:
        """End a cluster after its outputs were taken; with `outputs` false at once.

        Parameters
        ----------
        asked
            That it is to be ended stands in the ledger: whoever takes that back meanwhile keeps it.

        Raises
        ------
        OutputsNotPulled
            If some could not be brought though the machine answers: it is kept, under its guards.
        UsedAgain
            If somebody uses it again meanwhile.
        """
        from nbprov.machines.files.outputs import OutputsNotPulled

        try:
            if not outputs:
                self.drop(row.cluster_id)
            else:
                await self.before_down(row)
            self._still_wanted(row, asked, ASKED, ASKED_BARE)
            await end
        except OutputsNotPulled:
            self._engine.lifecycle.take_back(row)
            raise
        finally:
            end.close()

    def _still_wanted(self, row: ClusterRow, asked: bool, *intents: str) -> None:
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        if (
            not asked
            or now is None
            or now.state not in _UP
            or self._engine.lifecycle.is_asked(row, *intents)
        ):
            return
        if intent_of(now.reason):
            raise UsedAgain(
                f"{row.name} is {now.reason}", hint="%clusters shows what becomes of it"
            )
        raise UsedAgain(
            f"{row.name} is used again meanwhile, and goes on",
            hint=f"%nbprov down {row.name} ends it",
        )

    async def before_down(self, row: ClusterRow) -> None:
        """Take the outputs of a cluster that is about to be ended, if it runs and has any. Raises as `then_down`."""
        from nbprov.machines.files.outputs import OutputsNotPulled

        if not self.wanted(row.run_id):
            return
        if row.state in _UP:
            await self._before_down(row)
        elif self.are_left(row):
            raise OutputsNotPulled(
                f"{row.name} is kept, stopped: its outputs are on its disk alone ({row.reason})",
                hint=f"%nbprov start {row.name}, and down again; or end it without them: %nbprov down {row.name} --no-outputs",
            )

    def are_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to bring since it ran. Any thread."""
        return (
            row.state is ClusterState.STOPPED
            and self.wanted(row.run_id)
            and not self._was_tried(row)
        )

    def _was_tried(self, row: ClusterRow) -> bool:
        """Whether outputs were pulled, as far as they came, when nothing more came to them: at its stop, or after what it did last."""
        from nbprov.provisioning.supervision.stopped_expiry import is_start

        ledger, stopped = self._engine.ledger, None
        for at, kind, text in reversed(ledger.events.of_run(row.run_id)):
            if kind == OUTPUTS:
                return stopped is None or stopped - at <= FRESH_SECONDS + _idle_before(ledger, row)
            if is_start(kind, text):
                return False
            if (
                kind == "cluster"
                and text.startswith("stopped")
                and "its start failed" not in text
                and stopped is None
            ):
                stopped = at
        return False

    async def _before_down(self, row: ClusterRow) -> None:
        from nbprov.machines.files.outputs import OutputsNotPulled

        task_words = "its end goes on without them"
        try:
            taking = await self.take(row)
        except NotReached as error:
            log.warning("%s; %s", error.message, task_words)
            self._note(row, f"{error.message}; {task_words}"[:400])
            return
        except asyncio.CancelledError:
            task = self._tasks.get(row.cluster_id)
            if task is not None and task.cancelled() and not _is_cancelled():
                return  # another word came, that it be ended at once
            raise
        except Exception as error:
            if self._is_left(row):
                return
            raise _kept(
                row,
                f"{type(error).__name__}: {error}"
                if not isinstance(error, NbprovError)
                else error.message,
            ) from error
        if not taking.is_whole and not self._is_left(row):
            raise OutputsNotPulled(
                f"{row.name} is kept, under its guards: not all of its outputs could be pulled: {taking.left_words()}",
                hint=_ways(row.name),
            )

    def _is_left(self, row: ClusterRow) -> bool:
        """Whether it is being ended anyway, by its guards or another kernel: nothing is kept then, and its end is what is waited for."""
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        return now is None or now.state in (ClusterState.ENDING, ClusterState.ENDED)

    async def before_stop(self, row: ClusterRow) -> None:
        """Take the outputs of a cluster that is about to be stopped, as far as that goes in `STOP_SECONDS`: its disk is kept."""
        if row.state in _UP and self.wanted(row.run_id):
            try:
                await self.for_guard(row, STOP_SECONDS)
            except Exception:
                log.exception("%s: its outputs; it is stopped, and its disk kept", row.name)

    async def then_stop(
        self, row: ClusterRow, end: Coroutine[Any, Any, None], *, asked: bool = False
    ) -> None:
        """Stop a cluster after its outputs were taken as far as that goes. Raises `UsedAgain` as `then_down`."""
        try:
            self._engine.lifecycle.check_stop(row)
            await self.before_stop(row)
            self._still_wanted(row, asked, TO_STOP)
            await end
        finally:
            end.close()

    # ------------------------------------------------------------ a cell that is run again

    async def change(self, row: ClusterRow, stored: Spec, spec: Spec, folder: str) -> str:
        """Take over the outputs that a cell asks for of a cluster that runs; what changed in a line, or nothing."""
        from nbprov.machines.agents import agent_of
        from nbprov.provisioning.supervision.guard_config import hold_known, hold_of, of_node
        from nbprov.remote.agent.messages import GuardConfig
        from nbprov.spec import to_yaml

        def pairs(of: Spec) -> list[tuple[str, str]]:
            return [(mount.source, mount.target) for mount in of.outputs]

        if not spec.outputs or pairs(spec) == pairs(stored):
            return ""
        ledger = self._engine.ledger
        known = ledger.guards.get(row.run_id)
        if (
            known is not None
            and "poweroff" in known[0]
            and hold_known(ledger, row.run_id) != hold_of(spec)
        ):
            config = {**known[0], "outputs": {"hold_seconds": hold_of(spec)}}
            live = await self._engine.attach(row.name)
            told = GuardConfig.from_json(config)
            await asyncio.gather(
                *(
                    agent_of(node).set_guards(
                        of_node(told, ledger, row.run_id, row.token, node.instance.node)
                    )
                    for node in live.present
                )
            )
            for node in live.nodes:
                ledger.guards.set(row.run_id, node.instance.node, config, {})
        ledger.runs.rewrite_spec(row.run_id, to_yaml(replace(stored, outputs=spec.outputs)), folder)
        return f"outputs of {row.name} are now {', '.join(source for source, _ in pairs(spec))}"


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _idle_before(ledger: Ledger, row: ClusterRow) -> Seconds:
    """For how long a cluster did nothing before its guards stopped it; none where it may have been at work to the end."""
    from nbprov.provisioning.supervision.guard_config import STOP, guards_known

    guards = guards_known(ledger, row.run_id)
    if (
        guards is None
        or guards.autostop is None
        or (guards.budget is not None and guards.at_limit == STOP)
    ):
        return 0.0
    return guards.autostop.idle


def _ways(name: str) -> str:
    return f"mend it and say %nbprov down {name} again, which goes on from here; or end it now without them: %nbprov down {name} --no-outputs"


def _kept(row: ClusterRow, why: str) -> NbprovError:
    from nbprov.machines.files.outputs import OutputsNotPulled

    return OutputsNotPulled(
        f"{row.name} is kept, under its guards: its outputs could not be pulled: {why}",
        hint=_ways(row.name),
    )


__all__ = ["NotReached", "Takings", "UsedAgain"]
