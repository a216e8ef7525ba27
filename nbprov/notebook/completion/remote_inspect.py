"""Pass a front end's Shift-Tab in a `%%on` cell on to the machine.

IPython (9) hands its own hooks one name without the cell, and ipykernel (6.31 to 7.4) registers
nothing else for `inspect_request`, so its method is wrapped. Without this, Shift-Tab in a `%%on`
cell shows what the name means in this kernel, or nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("nbprov.notebook")

_METHOD = "do_inspect"
"""The kernel's method that answers `inspect_request`; ipykernel takes or awaits what it returns."""


class KernelInspection:
    """A wrapper around one kernel's `do_inspect`.

    The wrapper is a coroutine function exactly if the wrapped method is, so that other wrappers
    around it see no difference. If there is one by the time this one is removed, it stays in place
    and passes everything on.

    Parameters
    ----------
    kernel
        The kernel of the shell.
    original
        Its `do_inspect` before the wrapper.
    """

    def __init__(self, kernel: Any, original: Callable[..., Any]) -> None:
        self._kernel = kernel
        self._original = original
        self._replaced = vars(kernel).get(_METHOD)
        self._is_active = True
        is_async = inspect.iscoroutinefunction(original)
        self._wrapper = self._async_wrapper() if is_async else self._sync_wrapper()
        setattr(kernel, _METHOD, self._wrapper)

    def remove(self) -> None:
        """Stop asking machines, and restore the kernel's method if it is still ours."""
        self._is_active = False
        if vars(self._kernel).get(_METHOD) is not self._wrapper:
            return
        if self._replaced is None:
            delattr(self._kernel, _METHOD)
        else:
            setattr(self._kernel, _METHOD, self._replaced)

    def _sync_wrapper(self) -> Callable[..., Any]:
        def do_inspect(
            code: Any, cursor_pos: Any, detail_level: Any = 0, *others: Any, **named: Any
        ) -> Any:
            found = self._reply(code, cursor_pos, detail_level)
            if found is not None:
                return found
            return self._original(code, cursor_pos, detail_level, *others, **named)

        return do_inspect

    def _async_wrapper(self) -> Callable[..., Any]:
        async def do_inspect(
            code: Any, cursor_pos: Any, detail_level: Any = 0, *others: Any, **named: Any
        ) -> Any:
            found = self._reply(code, cursor_pos, detail_level)
            if found is not None:
                return found
            return await self._original(code, cursor_pos, detail_level, *others, **named)

        return do_inspect

    def _reply(self, code: Any, cursor: Any, detail: Any) -> dict[str, Any] | None:
        is_ours = isinstance(code, str) and isinstance(cursor, int) and "%" in code
        if not self._is_active or not is_ours:
            return None
        from .help import magic_help
        from .remote import remote_details

        try:
            told = magic_help(code, cursor)
            if told or "%%on" not in code:
                return _told(told) if told else None
            return remote_details(code, cursor, detail)
        except Exception:
            # The kernel must always reply, because a front end without a reply waits forever.
            log.exception("asking a machine about a name")
            return None


def _told(text: str) -> dict[str, Any]:
    """Return the answer to an `inspect_request`."""
    return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}


def install(shell: Any) -> Callable[[], None]:
    """Wrap the `do_inspect` of a shell's kernel; return the function that removes the wrapper.

    Does nothing in a shell without a kernel.
    """
    kernel = getattr(shell, "kernel", None)
    original = getattr(kernel, _METHOD, None)
    if not callable(original) or not hasattr(kernel, "__dict__"):
        return _nothing
    return KernelInspection(kernel, original).remove


def _nothing() -> None:
    """Remove nothing, because nothing was installed."""
