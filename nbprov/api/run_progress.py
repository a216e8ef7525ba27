"""What a run tells of its set-up, and the view of a run for displays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clusters import AttemptState, ClusterState, RunState, RunView
from nbprov.model.errors import Interrupted, NbprovError, UsageError

from .services import Services

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.run.driver import RunDriver

LOG_LINES = 500
"""How many lines of the set-up's log are kept for display; all of it is on the machine:
`%nbprov logs NAME setup`."""


class SetupProgress:
    """What goes on in the set-up of a run's cluster.

    Parameters
    ----------
    changed
        Called after each change.

    Attributes
    ----------
    work
        What goes on, in a line; empty where nothing does.
    ports
        Tunnels of the spec's ports that could not be opened, a line each.
    notes
        What stays true of the set-up, such as the commit of a git workdir, a line each.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.work = ""
        self.ports: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._logged = 0

    def report(self, text: str, line: str = "", /) -> None:
        """Take in what goes on and, where there is one, its line of the log."""
        self.work = text
        if line:
            self._log.append(line)
            self._logged += 1
        self._changed()

    def note(self, text: str) -> None:
        """As `report`, for what stays true."""
        self.notes = (*self.notes, text)
        self.report(text)

    def view(
        self,
        services: Services,
        driver: RunDriver,
        row: ClusterRow | None,
        *,
        needs_launch: bool,
        is_set_up: bool,
        error: BaseException | None,
    ) -> RunView:
        """The view of the run, with its launch and its cluster, if there is one. Any thread."""
        view = driver.view()
        view = replace(
            view,
            needs_launch=needs_launch,
            notes=(*view.notes, *self.notes),
            message=self.work or ("" if is_set_up else view.message),
            error=_words(error, view),
            hint=_hint(error),
            log=tuple(self._log),
            logged=self._logged,
        )
        if row is None:
            return view
        cluster = services.views.view(row)
        notes = (
            *cluster.notes,
            *services.tunnels.public_words(cluster, driver.spec.expose),
            *services.tunnels.words(cluster.cluster_id),
            *self.ports,
            *self.notes,
            *services.engines.words(driver.run_id),
        )
        view = replace(view, name=row.name, cluster=replace(cluster, notes=notes))
        return at_the_end(view) if row.state is ClusterState.ENDED else view


def _hint(error: BaseException | None) -> str:
    return error.hint if isinstance(error, NbprovError) else ""


def _words(error: BaseException | None, view: RunView) -> str:
    if error is None:
        return ""
    from nbprov.provisioning.run.unavailable import Unavailable

    if view.attempts and isinstance(error, Unavailable):
        return ""  # the message and the attempts say why
    if isinstance(error, NbprovError):
        return "\n".join(error.render())
    return str(error or "")


def at_the_end(view: RunView) -> RunView:
    """The view of a run whose cluster has ended."""
    # What was ready is gone, and the panel of a saved notebook must not say otherwise.
    reason = view.cluster.reason if view.cluster is not None else ""
    attempts = tuple(
        replace(attempt, state=AttemptState.GONE)
        if attempt.state is AttemptState.READY
        else attempt
        for attempt in view.attempts
    )
    return replace(
        view,
        state=RunState.ENDED,
        message=f"{view.name} has ended: {reason}".rstrip(": "),
        attempts=attempts,
    )


def cancelled(driver: RunDriver) -> Interrupted:
    """The error of a wait whose interrupt cancelled the launch."""
    alive = sum(not attempt.state.is_final for attempt in list(driver.failover.attempts.values()))
    what = (
        f"{alive} attempt{'' if alive == 1 else 's'} being ended and confirmed"
        if alive
        else "nothing of it is on the bill"
    )
    return Interrupted(f"{driver.name}: cancelled; {what}")


def left_alone(driver: RunDriver) -> Interrupted:
    """The error of a wait whose interrupt left the launch alone."""
    name, down = driver.name, f"%nbprov down {driver.name} ends it"
    if driver.state is RunState.READY:
        return Interrupted(f"{name}: its machine runs and its setup goes on; {down}")
    return Interrupted(f"{name}: the launch goes on in the background; {down}, %clusters shows it")


def not_launched(name: str) -> UsageError:
    """The error of a wait for a run that nobody has launched."""
    return UsageError(
        f"{name} waits for Launch",
        hint="press Launch in its panel, or call launch() on the run, then run this cell again",
        code="run.not-launched",
    )


def unloaded(name: str) -> NbprovError:
    """The error of a run that goes on without this process."""
    return NbprovError(
        f"{name}: nbprov was unloaded before it was set up",
        hint="%load_ext nbprov",
        code="run.left",
    )
