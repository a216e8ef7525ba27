"""Shift-Tab in `%%on` cells: a front end asks its kernel, and this passes the question on to the machine.

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
"""The method by which kernels answer `inspect_request`; ipykernel takes what it returns, or awaits it."""


def install(shell: Any) -> Callable[[], None]:
    """Put a wrapper around the kernel's `do_inspect`; returns what takes it away again. Does nothing in a shell without a kernel.

    The wrapper is of this one kernel, and of the kind of what it wraps: whoever wraps it in turn sees no difference. If somebody has by the time
    it is to go, it stays where it is and passes everything on.
    """
    kernel = getattr(shell, "kernel", None)
    asked = getattr(kernel, _METHOD, None)
    if not callable(asked) or not hasattr(kernel, "__dict__"):
        return _nothing
    before = vars(kernel).get(_METHOD)
    is_ours = True

    def details(code: Any, cursor_pos: Any, detail_level: Any) -> dict[str, Any] | None:
        if (
            not is_ours
            or not isinstance(code, str)
            or not isinstance(cursor_pos, int)
            or "%%on" not in code
        ):
            return None
        from .remote import remote_details

        try:
            return remote_details(code, cursor_pos, detail_level)
        except Exception:
            # Nobody but this could answer then: a front end that got no reply would wait for ever.
            log.exception("asking a machine about a name")
            return None

    def do_inspect(
        code: Any, cursor_pos: Any, detail_level: Any = 0, *others: Any, **named: Any
    ) -> Any:
        found = details(code, cursor_pos, detail_level)
        return (
            found if found is not None else asked(code, cursor_pos, detail_level, *others, **named)
        )

    async def do_inspect_later(
        code: Any, cursor_pos: Any, detail_level: Any = 0, *others: Any, **named: Any
    ) -> Any:
        found = details(code, cursor_pos, detail_level)
        return (
            found
            if found is not None
            else await asked(code, cursor_pos, detail_level, *others, **named)
        )

    wrapper = do_inspect_later if inspect.iscoroutinefunction(asked) else do_inspect
    setattr(kernel, _METHOD, wrapper)

    def remove() -> None:
        nonlocal is_ours
        is_ours = False
        if vars(kernel).get(_METHOD) is not wrapper:
            return
        if before is None:
            delattr(kernel, _METHOD)
        else:
            setattr(kernel, _METHOD, before)

    return remove


def _nothing() -> None:
    """What there is to take away where nothing was put."""
