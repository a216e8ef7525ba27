"""Where a process may be killed.

Before and after every writing method of the ledger (after its commit) and every call to the cloud.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbprov.clouds.base import Capabilities, Cloud
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.launches import CreateOperation, Instance, Launch, PollResult, Quote
from nbprov.model.offers import Candidate
from nbprov.provisioning.ledger import Ledger

NAMED_BY_STATE = {"launches.move": 1, "launches.failed": 2, "runs.move": 1, "clusters.move": 1}
"""Methods that move something to a state, and which argument that is.

Each state is a transition of its own.
"""

WRITES = {
    "runs": (
        "open",
        "move",
        "prolong",
        "request_cancel",
    ),
    "leases": (
        "renew",
        "take",
        "release",
        "release_all",
    ),
    "launches": (
        "intend",
        "intend_again",
        "prolong",
        "reprice",
        "sent",
        "accepted",
        "failed",
        "move",
    ),
    "clusters": (
        "hand_over",
        "move",
        "reprice",
        "resume_prices",
    ),
    "instances": ("seen",),
    "replacements": (
        "lose_machines",
        "intend",
        "reprice",
        "sent",
        "made",
        "ready",
        "end",
    ),
    "blocks": (
        "remember",
        "clear",
        "free_quota",
    ),
    "events": ("add",),
    "guards": ("set",),
}
"""The writing methods of the ledger, by table."""


class Trap:
    """Kills this very process, with no chance to tidy up, when a transition is passed for the n-th
    time.

    Parameters
    ----------
    transition
        `intend`, `failed(unknown)`, `cloud.submit`, …
    when
        `before` or `after`.
    nth
        1 is the first time.
    mark
        A file that is made just before the kill, so that it can be told from a crash.
    """

    def __init__(self, transition: str, when: str, nth: int, mark: Path) -> None:
        self.target = (transition, when)
        self.left = nth
        self.mark = mark
        self.written: list[str] = []

    def pass_by(self, transition: str, when: str) -> None:
        """Say that a transition is being passed."""
        if (transition, when) != self.target:
            return
        self.left -= 1
        if self.left == 0:
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    # ------------------------------------------------------------ the ledger

    def ledger(self, ledger: Ledger) -> Ledger:
        """The same ledger, with a trap at every writing method."""
        for name, methods in WRITES.items():
            table = getattr(ledger, name)
            for method in methods:
                guarded = self._guarded(ledger, f"{name}.{method}", getattr(table, method))
                setattr(table, method, guarded)
        together = ledger.together

        @contextmanager
        def trapped() -> Iterator[Any]:
            with together() as db:
                yield db
            self._committed(ledger)

        ledger.together = trapped  # type: ignore[method-assign, assignment]
        return ledger

    def _guarded(self, ledger: Ledger, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **options: Any) -> Any:
            place = NAMED_BY_STATE.get(name)
            transition = f"{name}({args[place].value})" if place is not None else name
            self.pass_by(transition, "before")
            result = method(*args, **options)
            self.written.append(transition)
            self._committed(ledger)
            return result

        return guarded

    def _committed(self, ledger: Ledger) -> None:
        if not ledger.store._connection.in_transaction:
            written, self.written = self.written, []
            for transition in written:
                self.pass_by(transition, "after")


class TrappedCloud(LocalCloud):
    """The `local` cloud with a trap at every call, and with capabilities that make a run short."""

    def __init__(
        self,
        folder: Path,
        capabilities: Capabilities,
        trap: Trap | None,
        submit_timeout: float = 0.0,
    ) -> None:
        super().__init__(folder)
        self.capabilities = capabilities
        self._trap = trap
        self._submit_timeout = submit_timeout

    def _call(
        self, name: str, arguments: Mapping[str, Any], timeout: float, *, creates: bool = False
    ) -> Any:
        least = self._submit_timeout if creates and self._submit_timeout else timeout
        return super()._call(name, arguments, least, creates=creates)

    def _passing(self, name: str, call: Callable[[], Any]) -> Any:
        if self._trap is None:
            return call()
        self._trap.pass_by(f"cloud.{name}", "before")
        try:
            return call()
        finally:
            self._trap.pass_by(f"cloud.{name}", "after")

    def quote(self, candidate: Candidate) -> Quote | None:
        found: Quote | None = self._passing("quote", lambda: LocalCloud.quote(self, candidate))
        return found

    def submit(self, launch: Launch) -> CreateOperation:
        operation: CreateOperation = self._passing(
            "submit", lambda: LocalCloud.submit(self, launch)
        )
        return operation

    def poll(self, operation: CreateOperation) -> PollResult:
        result: PollResult = self._passing("poll", lambda: LocalCloud.poll(self, operation))
        return result

    def list(self, owner: str) -> list[Instance]:
        found: list[Instance] = self._passing("list", lambda: LocalCloud.list(self, owner))
        return found

    def terminate(self, ids: Sequence[str]) -> None:
        self._passing("terminate", lambda: LocalCloud.terminate(self, ids))

    def stop(self, ids: Sequence[str]) -> None:
        self._passing("stop", lambda: LocalCloud.stop(self, ids))

    def start(self, ids: Sequence[str]) -> None:
        self._passing("start", lambda: LocalCloud.start(self, ids))


def finder(
    folder: Path, capabilities: Capabilities, trap: Trap | None = None, submit_timeout: float = 0.0
) -> Callable[[str], Cloud]:
    """What an engine looks clouds up with."""
    cloud = TrappedCloud(folder, capabilities, trap, submit_timeout)
    return lambda name: cloud
