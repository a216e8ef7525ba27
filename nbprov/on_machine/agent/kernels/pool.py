"""The kernels of a machine."""

from __future__ import annotations

from ..json_types import Json
from ..secret_registry import SecretRegistry
from .interpreter import KernelInterpreter
from .kernel import Kernel
from .launcher import HostLauncher, KernelRecord


class KernelPool:
    """The kernels of this machine by their names, each made when it is first named."""

    def __init__(
        self,
        launcher: HostLauncher,
        interpreter: KernelInterpreter,
        record: KernelRecord,
        secrets: SecretRegistry,
    ) -> None:
        self._parts = (launcher, interpreter, record, secrets)
        self._record = record
        self._kernels: dict[str, Kernel] = {}

    def all(self) -> list[Kernel]:
        """Return every kernel that was named."""
        return list(self._kernels.values())

    def find(self, name: str) -> Kernel | None:
        """Return a kernel, or None if none was named so."""
        return self._kernels.get(name)

    def get(self, name: str) -> Kernel:
        """Return a kernel, made if there is none of this name."""
        if name not in self._kernels:
            self._kernels[name] = Kernel(name, *self._parts)
        return self._kernels[name]

    def restart(self, name: str) -> None:
        """End a kernel; whoever asks for that knows that its variables are gone."""
        kernel = self._kernels.get(name)
        if kernel is not None:
            kernel.restart()
        self._record.note(name, is_there=False)


def kernel_name(frame: Json) -> str:
    """Return the name of the kernel that a request means."""
    return str(frame.get("kernel") or "main")
