"""The common half of a double: a server on loopback for an API that speaks JSON, with machines.

A subclass of `JsonDouble` translates requests and documents; what any cloud does is here: machines
that boot, stop, end slowly and are listed late, stock, pages, scripted refusals and lost answers.
The machines are real sshd processes of the `local` cloud.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nbprov.model.failures import Cause

from .double_machines import Machines
from .double_server import DoubleAnswer, DoubleRequest, DoubleServer, HangUp, json_answer
from .subject import CloudUnderTest, own_folder

__all__ = ["DoubleMachine", "DoubleRefusal", "DoubleRequest", "JsonDouble", "JsonDoubleUnderTest"]

PLENTY = 99


class DoubleRefusal(Exception):
    """An answer that is no success: a status, a document, and perhaps seconds to wait."""

    def __init__(self, status: int, document: Any, retry_after: float | None = None) -> None:
        super().__init__(str(document))
        self.status, self.document, self.retry_after = status, document, retry_after


@dataclass
class DoubleMachine:
    """One machine of the double.

    Attributes
    ----------
    fields
        What the create said of it, for the subclass.
    real
        The id of the sshd process behind it.
    shown
        A state in the cloud's words that is shown whatever it does.
    takes_stock
        Whether it takes one of what is left: a stopped machine does not.
    """

    id: str
    kind: str
    region: str
    fields: dict[str, Any]
    real: str
    born: float = field(default_factory=time.time)
    shown: str = ""
    takes_stock: bool = True
    leaves_at: float = 0.0
    leaves_for: str = ""


class JsonDouble(ABC):
    """A server with the machines of one account.

    Parameters
    ----------
    folder
        Where the machines' disks lie.

    Attributes
    ----------
    states
        The cloud's words for `pending`, `running`, `stopping`, `stopped`, `ending` and `gone`.
    out_of_stock
        What a create is refused with when nothing is left.
    problems
        What went wrong in the double itself; a test that ends with one fails.
    """

    states: ClassVar[Mapping[str, str]]
    out_of_stock: ClassVar[tuple[int, Any]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines = Machines(folder)
        self.made: dict[str, DoubleMachine] = {}
        self.ever: dict[str, str] = {}
        self.left: dict[tuple[str, str], int] = {}
        self.refusals: list[DoubleRefusal] = []
        self.losing = self._lost = False
        self.hidden = self.ending = 0.0
        self.page_size, self.empty_pages, self.price_factor = 1000, 0, 1.0
        self._lock = threading.RLock()
        self.problems: list[str] = []
        self._server = DoubleServer(self.carried_out, self.problems.append)
        self.url = self._server.url
        self._server.start()

    @abstractmethod
    def answer(self, asked: DoubleRequest) -> Any:
        """Carry out a request and return its document; None answers 204.

        Raises
        ------
        DoubleRefusal
            To answer something else.
        """

    def create(
        self,
        kind: str,
        region: str,
        fields: Mapping[str, Any],
        *,
        user_data: str,
        public_key: str = "",
        on_poweroff: str = "terminate",
    ) -> DoubleMachine:
        """Make a machine, unless a refusal is scripted or nothing is left of this type."""
        if self.refusals:
            raise self.refusals.pop(0)
        self._take(kind, region)
        real = self.machines.create(
            user_data=user_data, public_key=public_key, on_poweroff=on_poweroff
        )
        made = DoubleMachine(f"m-{uuid.uuid4().hex[:12]}", kind, region, {**fields}, real)
        self.made[made.id], self.ever[made.id] = made, real
        self._lost, self.losing = self.losing, False
        return made

    def listed(self) -> list[DoubleMachine]:
        """Return the machines that a listing shows now."""
        for made in [*self.made.values()]:
            self._follow(made)
        return [one for one in self.made.values() if time.time() - one.born >= self.hidden]

    def page(
        self, rows: Sequence[DoubleMachine], start: str
    ) -> tuple[list[DoubleMachine], str | None]:
        """Return the page that begins at this cursor, and the cursor of the next one."""
        padded = [None] * (self.page_size * self.empty_pages) + [*rows]
        first, end = int(start or 0), int(start or 0) + self.page_size
        shown = [row for row in padded[first:end] if row is not None]
        return shown, str(end) if end < len(padded) else None

    def look(self, made: DoubleMachine) -> tuple[str, str, int]:
        """Return a machine's state in the cloud's words, and where its sshd answers.

        The address is empty, and the port 0, where none does; it is not `running` before that.
        """
        real = made.leaves_for or self.machines.state(made.real)
        host, port = self.machines.address(made.real)
        if real == "running" and not host:
            real = "pending"
        return made.shown or self.states[real], host, port

    def end(self, machine: str) -> bool:
        """End a machine; return whether it was there."""
        return self._leave(machine, "ending")

    def stop(self, machine: str) -> bool:
        """Stop a machine; return whether it was there."""
        return self._leave(machine, "stopping")

    def start(self, machine: str) -> bool:
        """Start a stopped machine, unless nothing is left of its type; return whether it was
        there.
        """
        if machine in self.made:
            self._follow(self.made[machine])
        made = self.made.get(machine)
        if made is None:
            return False
        if made.takes_stock:
            self.machines.start(made.real)
            return True
        self._take(made.kind, made.region)
        made.takes_stock = True
        try:
            self.machines.start(made.real)
        except BaseException:
            self._give_back(made)
            raise
        return True

    def close(self) -> None:
        """End the machines and the server."""
        self._server.close()
        self.machines.close()

    def carried_out(self, asked: DoubleRequest) -> DoubleAnswer:
        """Return the answer of a request.

        Raises
        ------
        HangUp
            If it is lost.
        """
        with self._lock:
            self._lost = False
            try:
                document = self.answer(asked)
            except DoubleRefusal as refused:
                pause = refused.retry_after
                more = {} if pause is None else {"Retry-After": f"{pause:g}"}
                return json_answer(refused.status, refused.document, more)
            if self._lost:
                raise HangUp
        return json_answer(204 if document is None else 200, document)

    def _leave(self, machine: str, into: str) -> bool:
        made = self.made.get(machine)
        if made is None:
            return False
        self._follow(made)
        off = self.machines.state(made.real) in ("stopped", "gone")
        ends = into == "ending" and made.leaves_for != into
        if ends or not (off or made.leaves_for):
            made.leaves_at, made.leaves_for = time.time() + self.ending, into
        self._follow(made)
        return True

    def _follow(self, made: DoubleMachine) -> None:
        if made.leaves_for and time.time() >= made.leaves_at:
            if made.leaves_for == "stopping":
                self.machines.stop(made.real)
                made.leaves_for = ""
            else:
                self.machines.terminate(made.real)
        state = self.machines.state(made.real)
        if state == "gone":
            self.made.pop(made.id, None)
        if state in ("stopped", "gone"):
            self._give_back(made)

    def _take(self, kind: str, region: str) -> None:
        left = self.left.get((kind, region), PLENTY)
        if left <= 0:
            raise DoubleRefusal(*self.out_of_stock)
        self.left[kind, region] = left - 1

    def _give_back(self, made: DoubleMachine) -> None:
        if made.takes_stock:
            made.takes_stock = False
            self.left[made.kind, made.region] = self.left.get((made.kind, made.region), PLENTY) + 1


class JsonDoubleUnderTest(CloudUnderTest):
    """A cloud whose double is a `JsonDouble`, with what can be said of all of them.

    A subclass gives `make`, `launch`, `other_launch` and `refusals`.

    Attributes
    ----------
    double_type
        The double.
    environment
        Variables of the adapter besides the address.
    refusals
        How the cloud refuses a create: status and document by cause.
    """

    double_type: ClassVar[type[JsonDouble]]
    environment: ClassVar[Mapping[str, str]] = {}
    refusals: ClassVar[Mapping[Cause, tuple[int, Any]]]
    tells_poweroff_reason = False

    def __init__(self) -> None:
        self.folder = own_folder("d")
        self.double = self.double_type(self.folder)
        self.set_environment({**dict.fromkeys(self.addresses, self.double.url), **self.environment})
        super().__init__()

    def refuse(self, cause: Cause) -> None:
        pause = 3.0 if cause is Cause.RATE_LIMIT else None
        self.double.refusals.append(DoubleRefusal(*self.refusals[cause], pause))

    def lose_answer(self, call: str = "submit") -> None:
        self.double.losing = True

    def leave(self, count: int) -> None:
        offer = self.launch().candidate.offer
        self.double.left[offer.instance_type, offer.region] = count

    def hide_young(self, seconds: float) -> None:
        self.double.hidden = seconds

    def end_slowly(self, seconds: float) -> None:
        self.double.ending = seconds

    def change_price(self, factor: float) -> None:
        self.double.price_factor = factor

    def page(self, size: int, empty: int) -> bool:
        self.double.page_size, self.double.empty_pages = size, empty
        return True

    def show_state(self, instance_id: str, state: str) -> bool:
        self.double.made[instance_id].shown = state
        return True

    def traces(self, ids: Sequence[str]) -> list[str]:
        from nbprov.clouds.local.daemon import processes

        real = [self.double.ever[one] for one in ids if one in self.double.ever]
        found = [str(process) for one in real for process in processes.of_machine(one)]
        disks = [self.double.machines.disk(one) for one in real]
        return found + [str(disk) for disk in disks if disk.exists()]

    def written(self) -> dict[str, bytes]:
        folder = self.double.machines.folder
        return {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}

    def close(self) -> None:
        self.double.close()
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self.double.problems == []
