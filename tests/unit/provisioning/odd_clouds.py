"""The `local` cloud with what other clouds have.

Side objects, states nobody knows, a firewall that keeps this computer out.
"""

from __future__ import annotations

import builtins
import contextlib
import socket
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    CheckResult,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    PollResult,
    Refused,
    SideObject,
)


class CloudWithSides(LocalCloud):
    """Each launch makes a disk of its own and uses a group that serves all; a disk is in use while
    its machine lives, or as the test says.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.objects: dict[str, tuple[str, SideObject]] = {}
        self.held: set[str] = set()
        self.removed: list[str] = []
        self.refusal: Failure | None = None
        self.not_listed: Failure | None = None
        self.account = ""

    def check(self) -> CheckResult:
        told = super().check()
        return replace(told, account=self.account) if self.account else told

    def submit(self, launch: Launch) -> CreateOperation:
        self.make(launch.owner, f"disk-{launch.token[:8]}", launch.token)
        self.make(launch.owner, "group", "", shared=True)
        return super().submit(launch)

    def make(self, owner: str, id: str, token: str, *, shared: bool = False) -> SideObject:
        """Add an object."""
        made = SideObject(self.name, "here", "group" if shared else "disk", id, token, shared)
        self.objects[id] = (owner, made)
        return made

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        if self.not_listed is not None:
            raise CloudError(self.not_listed)
        return (
            []
            if self.account
            else [thing for whose, thing in self.objects.values() if whose == owner]
        )

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        if self.refusal is not None:
            raise CloudError(self.refusal)
        alive = {
            i.token
            for owner, _ in self.objects.values()
            for i in self.list(owner)
            if i.state is not InstanceState.GONE
        }
        in_use = [thing for thing in objects if thing.id in self.held or thing.token in alive]
        for thing in objects:
            if thing not in in_use and self.objects.pop(thing.id, None) is not None:
                self.removed.append(thing.id)
        return in_use


class EchoingCloud(LocalCloud):
    """A cloud that refuses each create after it was taken, and repeats what it was sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = ""

    def submit(self, launch: Launch) -> CreateOperation:
        self.told = f"Invalid value for field 'startup-script': {launch.user_data()!r}"
        return CreateOperation(self.name, launch.token, "later")

    def poll(self, operation: CreateOperation) -> PollResult:
        return Refused(Failure(Cause.BAD_REQUEST, self.told, "invalid"))


class MistyCloud(LocalCloud):
    """A cloud whose list shows a state nobody knows, or lacks machines, for as long as the test
    wants.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_misty = False
        self.hidden: Collection[str] = ()

    def list(self, owner: str) -> builtins.list[Instance]:
        shown = [i for i in super().list(owner) if i.id not in self.hidden]
        return [replace(i, state=InstanceState.UNKNOWN) for i in shown] if self.is_misty else shown


class Gate:
    """A port that answers nobody until it is opened, as behind a firewall, and then leads to
    another one.
    """

    def __init__(self) -> None:
        self.target = ("", 0)
        self.is_open = False
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.shut()

    def shut(self) -> None:
        """Break what goes through, and let the port fall silent.

        Its queue of connections is full and nobody takes them.
        """
        with self._lock:
            self.is_open = False
            self._drop()
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen(0)
            self.port = listener.getsockname()[1]
            self._listener = listener
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    filler.connect(("127.0.0.1", self.port))
                self._held.append(filler)

    def open(self) -> None:
        """Let everybody through."""
        with self._lock:
            if self.is_open:
                return
            self.is_open = True
            self._drop()
            listener = socket.create_server(("127.0.0.1", self.port))
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """End everything."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        for held in (*self._held, *([self._listener] if self._listener is not None else [])):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()
        self._held, self._listener = [], None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                outer = listener.accept()[0]
                inner = socket.create_connection(self.target)
            except OSError:
                return
            with self._lock:
                self._held += [outer, inner]
            for source, sink in ((outer, inner), (inner, outer)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class GatedCloud(LocalCloud):
    """A cloud whose machines are reached through a gate that `admit` opens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = Gate()
        self.admitted: list[tuple[str, ...]] = []
        self.user = ""

    def list(self, owner: str) -> builtins.list[Instance]:
        return [self._behind(i) for i in super().list(owner)]

    def _behind(self, instance: Instance) -> Instance:
        if not instance.host or not instance.port:
            return replace(instance, user=self.user)
        self.gate.target = (instance.host, instance.port)
        return replace(instance, host="127.0.0.1", port=self.gate.port, user=self.user)

    def admit(self, ids: Sequence[str]) -> bool:
        self.admitted.append(tuple(ids))
        self.gate.open()
        return True
