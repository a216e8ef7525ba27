"""Loading and unloading the extension. Cheap: what is heavy waits until a magic needs it."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING, Any

from nbprov.model import paths
from nbprov.model.errors import UsageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MARK = "_nbprov_extension"


def load(shell: InteractiveShell) -> None:
    """Register the magics and the completer; say in one line what an earlier kernel left, if it left anything.

    Raises
    ------
    UsageError
        On ipykernel 7.0, whose background updates are broken.
    """
    _refuse_broken_kernel()
    if getattr(shell, _MARK, None) is not None:
        return  # loaded already: %reload_ext and autoreload come here
    from .completion import match
    from .magics import Nbprov

    magics: Any = Nbprov(shell=shell)
    shell.register_magics(magics)
    shell.configurables.append(magics)
    shell.Completer.custom_matchers.append(match)
    setattr(shell, _MARK, magics)
    atexit.register(close_session)
    if _anything_left():
        from .greeting import greet

        greet(shell)


def unload(shell: InteractiveShell) -> None:
    """Take the magics and the completer away again. Machines and their guards go on."""
    magics: Any = getattr(shell, _MARK, None)
    if magics is None:
        return
    from .completion import match

    if match in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(match)
    for kind in ("line", "cell"):
        for name in magics.magics[kind]:
            shell.magics_manager.magics[kind].pop(name, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)
    delattr(shell, _MARK)
    close_session()
    atexit.unregister(close_session)


def close_session() -> None:
    """Give leases up and stop the engine, if there is one. At a kernel's orderly end the next kernel then need not wait."""
    api = sys.modules.get("nbprov.api")
    if api is not None:
        api.close()


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
    from nbprov.provisioning.ledger.store import has_live_rows

    path = paths.home() / "ledger.sqlite3"
    return path.exists() and has_live_rows(path)
