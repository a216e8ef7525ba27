"""The kernels on the machine: completion, inspection, interrupt and restart."""

from __future__ import annotations

from typing import Any

from nbprov.model.clock import Seconds

from .transport import AgentTransport


class KernelClient:
    """Speaks with the kernels of one machine. Running a cell is `AgentClient.cell`."""

    def __init__(self, transport: AgentTransport) -> None:
        self._transport = transport

    async def complete(
        self, code: str, cursor: int, kernel: str = "main", *, deadline: Seconds
    ) -> dict[str, Any]:
        """Return the completions of an idle kernel, as Jupyter's `complete_reply` has them.

        Empty where the kernel cannot tell now. Opens no connection.
        """
        return await self._ask("complete", deadline, code=code, cursor=cursor, kernel=kernel)

    async def inspect(
        self, code: str, cursor: int, detail: int = 0, kernel: str = "main", *, deadline: Seconds
    ) -> dict[str, Any]:
        """Return what an idle kernel knows of a name, as Jupyter's `inspect_reply` has it.

        It is text only; else as `complete`.
        """
        return await self._ask(
            "inspect", deadline, code=code, cursor=cursor, detail=detail, kernel=kernel
        )

    async def _ask(self, question: str, deadline: Seconds, **about: Any) -> dict[str, Any]:
        answer = await self._transport.ask_if_up(question, deadline=deadline, **about)
        found = (answer or {}).get("found")
        return found if isinstance(found, dict) and found.get("status") == "ok" else {}

    async def interrupt(self, kernel: str = "main") -> bool:
        """Interrupt the running cell of a kernel (KeyboardInterrupt); False if none ran."""
        answer = await self._transport.ask("interrupt", kernel=kernel)
        return bool(answer.get("interrupted"))

    async def restart(self, kernel: str = "main") -> None:
        """End a kernel and its variables; the next cell starts a new one."""
        await self._transport.ask("restart", kernel=kernel)
