"""Loading and unloading the extension. Cheap: what is heavy waits until a magic needs it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbprov.model import paths
from nbprov.model.errors import UsageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MARK = "_nbprov_extension"
_LOG = "nbprov"


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What was put into a shell. Kept by the shell, since a module that autoreload renews has other functions."""

    magics: Any
    matcher: Any
    after_cell: Any
    log: logging.Handler
    forget_inspecting: Callable[[], None]


def load(shell: InteractiveShell) -> None:
    """Register the magics and the completer; say in one line what an earlier kernel left, if it left anything.

    Raises
    ------
    UsageError
        On ipykernel 7.0, whose background updates are broken.
    """
    _refuse_broken_kernel()
    if getattr(shell, _MARK, None) is not None:
        return  # loaded already: autoreload comes here
    from .completion.magics import match
    from .completion.remote_inspect import install
    from .logfile import LogFile
    from .magics.magics import Nbprov

    magics: Any = Nbprov(shell=shell)
    loaded = _Loaded(
        magics,
        match,
        _show_what_is_due,
        LogFile(paths.home() / "logs" / "nbprov.log"),
        install(shell),
    )
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(loaded.matcher)
    shell.events.register("post_run_cell", loaded.after_cell)
    logging.getLogger(_LOG).addHandler(loaded.log)
    setattr(shell, _MARK, loaded)
    if _anything_left():
        from .load_message import greet

        greet(shell)


def unload(shell: InteractiveShell) -> None:
    """Take the magics and the completer away again. Machines and their guards go on."""
    loaded: _Loaded | None = getattr(shell, _MARK, None)
    if loaded is None:
        return
    if loaded.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    shell.events.unregister("post_run_cell", loaded.after_cell)
    loaded.forget_inspecting()
    for kind in ("line", "cell"):
        for name, function in loaded.magics.magics[kind].items():
            # Another extension may have taken the name meanwhile; then it is that one's.
            if shell.magics_manager.magics[kind].get(name) == function:
                del shell.magics_manager.magics[kind][name]
    if loaded.magics in shell.configurables:
        shell.configurables.remove(loaded.magics)
    logging.getLogger(_LOG).removeHandler(loaded.log)
    loaded.log.close()
    delattr(shell, _MARK)
    _close_session()


def _close_session() -> None:
    shown, api = sys.modules.get("nbprov.notebook.panels.displays"), sys.modules.get("nbprov.api")
    if shown is not None:
        shown.Follower.drop_all()
    if api is not None:
        api.close()


def _show_what_is_due(result: Any = None) -> None:
    """At the end of each cell: where nobody looks on, what it changed must be in the notebook when it is saved."""
    shown = sys.modules.get("nbprov.notebook.panels.displays")
    if shown is None:
        return
    from .panels import frontend

    if frontend.current() is frontend.Host.STATIC:
        shown.Follower.flush()


def _refuse_broken_kernel() -> None:
    kernel = sys.modules.get("ipykernel")
    version = getattr(kernel, "version_info", (0, 0))
    if tuple(version[:2]) == (7, 0):
        raise UsageError(
            "ipykernel 7.0 loses what background threads display (ipywidgets issue 4001)",
            hint="pip install 'ipykernel>=7.1', then restart the kernel",
            code="kernel.unsupported",
        )


def _anything_left() -> bool:
    from nbprov.provisioning.load_check import has_live_rows

    return has_live_rows(paths.home() / "ledger.sqlite3")
