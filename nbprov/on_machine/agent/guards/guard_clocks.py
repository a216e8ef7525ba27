"""The guards: the clocks of idleness, lifetime and budget that end the machine."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Callable

from ..errors import RequestError
from ..json_types import Json
from ..log import forget_error, report_error
from ..state_files import read_json, write_json
from .config import check_guards
from .poweroff_file import read_poweroff, write_poweroff

TICK_SECONDS = 5.0
SHORTEST_TICK = 0.2
WARNING_SECONDS = 600.0
SAVE_SECONDS = 5.0
KEPT_SHARE = 0.25
"""At most this share of a lifetime or budget is kept for fetching outputs."""
RETURN_SECONDS = 180.0
"""How long after a boot a limit that was reached before still waits to be raised.

Whoever started the machine may want to raise it; a budget keeps as much back."""
UNSET_SECONDS = 3600.0
"""How long a machine runs without guards, whatever it does: as long as the default idle guard.

They were lost, or a kernel died before it told them; one that comes sets them."""
GANG_SECONDS = 60.0
"""Between two messages to the cluster's other machines, at most."""
GANG_MESSAGES = 10.0
"""So many messages go within the idle time.

Nine in a row may be lost before a machine takes the others for idle that are not."""
SAVED = (
    "config",
    "age",
    "running",
    "budget_base",
    "carried",
    "warned",
    "held",
    "identity",
    "now",
    "wall",
    "idle_since",
    "unset_since",
)


class GuardClocks:
    """Clocks, pure but for their state file: readings of time and activity are handed in.

    Parameters
    ----------
    folder
        The agent's folder.
    now, wall
        The time since the boot, and that of the calendar.
    identity
        The boot, which tells whether the machine or only its agent was away.
    is_restart
        The agent's supervisor started it anew.
    is_boot
        The machine started the agent at its boot.

    Attributes
    ----------
    age, running
        Seconds since the machine's first start, and those of them that are billed as running.
    is_lost
        There is a state, and none of it can be read: nothing is known of the guards.
    carried, budget_base
        What was spent at earlier prices, and from which `running` the price of now counts.
    warned
        The guards whose nearness was told.
    held
        Until when outputs are waited for, once that has begun.
    unset_since
        The `running` at which it began to have no guards; None while it has any configuration.
    """

    def __init__(
        self,
        folder: Path,
        now: float,
        wall: float,
        identity: str,
        is_restart: bool = False,
        is_boot: bool = False,
    ) -> None:
        self._folder = folder
        self._paths = folder / "guards.json", folder / "guards.copy.json"
        saved = _read_saved(self._paths)
        self.is_lost = not saved and any(path.exists() for path in self._paths)
        is_same_boot = saved.get("identity") == identity
        self.config: Json = saved.get("config", {})
        self.age: float = saved.get("age", 0.0)
        self.running: float = saved.get("running", 0.0)
        self.budget_base: float = saved.get("budget_base", 0.0)
        self.carried: float = saved.get("carried", 0.0)
        self.warned: list[str] = saved.get("warned", [])
        self.held: float | None = (saved.get("held") or None) if is_same_boot else None
        self.identity, self.now, self.wall, self._saved_at = identity, now, wall, now
        if is_same_boot:
            # The agent was away, the machine was not. If it came back by itself it goes on as
            # before; if a person started it, that is activity.
            is_by_itself = is_restart or is_boot
            self.idle_since = min(now, saved["idle_since"]) if is_by_itself else now
            away = max(0.0, now - saved["now"])
            self.age += away
            self.running += away
        else:
            billed = seconds_since_boot(folder, now, wall)
            if self.is_lost:
                billed = max(billed, _seconds_since_first_start(folder, wall))
            self.idle_since = now
            self.age += max(billed, wall - saved["wall"]) if saved else billed
            self.running += billed
            self.budget_base = self.budget_base if saved else self.running
        since: float | None = saved.get("unset_since")
        self.unset_since = None if self.config else self.running if since is None else since
        self._spared: dict[str, float] = {
            state["guard"]: now + RETURN_SECONDS
            for state in self.states()
            if is_boot and not is_same_boot and is_due(state)
        }
        self.save()

    def save(self) -> None:
        """Write the clocks to the disk, twice: a machine of which they are lost has no guards."""
        state = {key: getattr(self, key) for key in SAVED}
        self._saved_at = self.now
        for path in self._paths:
            write_json(path, state)

    def set(self, config: Json) -> None:
        """Take a new configuration, as `check_guards` returns it.

        A changed idle rule starts the idle clock anew, a changed limit the budget's count; the age
        goes on. At a changed price what was spent is kept, as counted here or as told, whichever is
        more: who learns of a price late has counted too little.
        """
        watched = ("idle_seconds", "wait_for", "mode")
        if any(config.get(key) != self.config.get(key) for key in watched):
            self.idle_since = self.now
        before, budget = self.config.get("budget"), config.get("budget")
        if budget and budget != before:
            told = budget.get("spent_micros", 0)
            is_same_limit = before is not None and (
                before["limit_micros"] == budget["limit_micros"]
            )
            self.carried = max(self.spent(), told) if is_same_limit else told
            self.budget_base = self.running
        # Told again with more spent, limits are what they were: nobody is warned of them twice.
        if _limits(config) != _limits(self.config):
            self.warned, self._spared = [], {}
        self.config, self.is_lost = config, False
        self.unset_since = None if config else self.running
        write_poweroff(self._folder, config)
        self.save()

    def poweroff(self) -> str:
        """Return the command that ends the machine; one without guards has it from a file."""
        return str((self.config or read_poweroff(self._folder) or {})["poweroff"])

    def spent(self) -> float:
        """Return the micros spent of the budget, at earlier prices and at that of now."""
        budget = self.config.get("budget")
        if not budget:
            return 0.0
        seconds = self.running - self.budget_base
        return self.carried + float(budget["hourly_micros"]) * seconds / 3600.0

    def tick(self, now: float, wall: float, active: list[str]) -> None:
        """Advance the clocks; `active` says what goes on."""
        passed = max(0.0, now - self.now)
        self.age += passed
        self.running += passed
        self.now, self.wall = now, wall
        if active:
            self.idle_since = now
        if now - self._saved_at >= SAVE_SECONDS:
            self.save()

    def note_peer_activity(self, at: float) -> None:
        """Count what the cluster's other machines did as activity of the instant it was done."""
        self.idle_since = max(self.idle_since, min(self.now, at))

    def gang_pause(self) -> float:
        """Return the seconds between two messages to the cluster's other machines."""
        idle = self.config.get("idle_seconds") or math.inf
        return max(SHORTEST_TICK, min(GANG_SECONDS, idle / GANG_MESSAGES))

    def states(self) -> list[Json]:
        """Return every guard that is on; at zero or less seconds `left` it is due.

        Each stands alone: one that cannot be computed does not keep the others from ending the
        machine.
        """
        makers: dict[str, Callable[[Any], Json]] = {
            "budget": self._budget_state,
            "max_lifetime_seconds": self._lifetime_state,
            "idle_seconds": self._idle_state,
        }
        found = [] if self.config else self._unset_states()
        for key, make in makers.items():
            if not self.config.get(key):
                continue
            try:
                found.append(make(self.config[key]))
                forget_error(f"the guard {key}")
            except Exception:
                report_error(f"the guard {key}")
        return found

    def due(self) -> Json | None:
        """Return the guard that ends the machine now, if one does."""
        for state in self.states():
            if is_due(state) and self.now >= self._spared.get(state["guard"], 0.0):
                return state
        return None

    def warnings(self) -> list[Json]:
        """Return the limits that come near, each once. Idleness is no surprise."""
        fresh = [
            state
            for state in self.states()
            if state["guard"] not in ("idle", *self.warned)
            and state["left"] is not None
            and 0 < state["left"] <= WARNING_SECONDS
        ]
        self.warned += [state["guard"] for state in fresh]
        return fresh

    def hold_until(self, due: Json) -> float:
        """Return when a wait for outputs that begins now is over.

        It goes beyond no limit, and an agent that was started anew goes on with the wait there was.
        """
        limits = [
            state["left"] + state["hold"]
            for state in self.states()
            if state["guard"] != "idle" and state["left"] is not None
        ]
        until = self.now + max(0.0, min([due["hold"], *limits]))
        self.held = until if self.held is None else min(self.held, until)
        self.save()
        return self.held

    def pause(self) -> float:
        """Return the seconds to the next look: a twentieth of the nearest limit, within bounds."""
        lengths: list[float] = [
            state["left"] for state in self.states() if state["left"] is not None
        ]
        if self.config.get("idle_seconds"):
            lengths.append(self.config["idle_seconds"])
        return min([TICK_SECONDS, *(max(SHORTEST_TICK, length / 20.0) for length in lengths)])

    def _budget_state(self, budget: Json) -> Json:
        hourly, limit, spent = budget["hourly_micros"], budget["limit_micros"], self.spent()
        mode = budget.get("mode", "terminate")
        keep_back = hourly * budget.get("reserve_seconds", 0) / 3600.0
        buys = (limit - self.carried) * 3600.0 / hourly if hourly else 0.0
        hold = self._hold(mode, max(0.0, buys))
        left = (limit - keep_back - spent) * 3600.0 / hourly - hold if hourly else None
        reason = f"budget: ${spent / 1e6:.4f} of ${limit / 1e6:.4f} spent"
        state = _state("budget", left, mode, reason, hold)
        return {**state, "spent_micros": int(spent)}

    def _lifetime_state(self, lifetime: float) -> Json:
        hold = self._hold("terminate", lifetime)
        reason = f"lifetime: {int(lifetime)} s are over"
        return _state("lifetime", lifetime - hold - self.age, "terminate", reason, hold)

    def _idle_state(self, idle: float) -> Json:
        mode = self.config.get("mode", "terminate")
        reason = f"idle: nothing was done for {int(idle)} s"
        left = idle - (self.now - self.idle_since)
        return _state("idle", left, mode, reason, self._hold(mode))

    def _unset_states(self) -> list[Json]:
        """Return what ends a machine without guards; nothing where no way to end it is known."""
        known = read_poweroff(self._folder)
        if known is None or self.unset_since is None:
            return []
        reason = f"unset: no kernel set its guards for {int(UNSET_SECONDS)} s"
        left = UNSET_SECONDS - (self.running - self.unset_since)
        return [_state("unset", left, known["mode"], reason, 0.0)]

    def _hold(self, mode: str, limit: float | None = None) -> float:
        """Return for how long outputs are waited for; a limit comes due so much earlier."""
        outputs = self.config.get("outputs") or {}
        wanted = float(outputs.get("hold_seconds", 0.0)) if mode == "terminate" else 0.0
        return wanted if limit is None else min(wanted, limit * KEPT_SHARE)


def _read_saved(paths: tuple[Path, ...]) -> Json:
    """Return the newest state that is whole; empty if there is none."""
    found = [saved for saved in map(read_json, paths) if saved is not None and _is_whole(saved)]
    return max(found, key=lambda saved: float(saved["age"]), default={})


def _is_whole(saved: Json) -> bool:
    """Return whether a state can be gone on from: a full or broken disk may leave anything."""
    numbers = ("age", "running", "budget_base", "carried", "now", "wall", "idle_since")
    try:
        if saved["config"]:
            check_guards(saved["config"])
        held = saved["held"] is None or _is_number(saved["held"])
        since = saved.get("unset_since")
        held = held and (since is None or _is_number(since))
        words = isinstance(saved["identity"], str) and isinstance(saved["warned"], list)
        return held and words and all(_is_number(saved[key]) for key in numbers)
    except (KeyError, TypeError, AttributeError, RequestError) as error:
        print(f"a state of the guards is of no use: {error!r}", file=sys.stderr, flush=True)
        return False


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def is_due(state: Json) -> bool:
    """Return whether a guard leaves no time."""
    return state["left"] is not None and bool(state["left"] <= 0)


def seconds_since_boot(folder: Path, now: float, wall: float) -> float:
    """Return for how long the machine was billed before its agent came.

    The start script's file tells it; in a container the uptime is the host's and says nothing.
    """
    try:
        return min(now, max(0.0, wall - (folder / "boot.id").stat().st_mtime))
    except OSError:
        return 0.0


def _seconds_since_first_start(folder: Path, wall: float) -> float:
    """Return an age that is not too low, where the clocks are lost: nothing rewrites the lock."""
    try:
        return max(0.0, wall - (folder / "agent.lock").stat().st_mtime)
    except OSError:
        return 0.0


def _state(guard: str, left: float | None, mode: str, reason: str, hold: float) -> Json:
    return {"guard": guard, "left": left, "mode": mode, "reason": reason, "hold": hold}


def _limits(config: Json) -> Json:
    """Return a configuration without what was spent so far."""
    budget = config.get("budget")
    return {**config, "budget": budget and {**budget, "spent_micros": 0}}
