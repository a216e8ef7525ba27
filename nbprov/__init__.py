"""Get a GPU without leaving the notebook: `%load_ext nbprov`, then a `%%provision` cell.

The same verbs exist in Python: `nbprov.provision`, `plan`, `prices`, `clusters`, `cluster`,
`check`, `costs`, `history`, `blocks`, `relax`, `refresh_prices`, `rename` and `sweep`;
`nbprov.aio` has them as coroutines. Every error is a `nbprov.NbprovError`. Importing this package
imports nothing heavy: each part is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model.text.log_filter import clean_logs

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .api import aio, session
    from .model.errors import NbprovError

    # For type checkers and editors; at run time `__getattr__` finds these.
    _of = session()
    attempts = _of.attempts
    blocks = _of.blocks
    check = _of.check
    clear_blocks = _of.clear_blocks
    cluster = _of.cluster
    clusters = _of.clusters
    costs = _of.costs
    history = _of.history
    parse = _of.parse
    plan = _of.plan
    prices = _of.prices
    provision = _of.provision
    refresh_prices = _of.refresh_prices
    relax = _of.relax
    rename = _of.rename
    sweep = _of.sweep

__version__ = "0.1.0"

clean_logs()  # before any module of the package can log

_VERBS = frozenset(
    {
        "attempts",
        "blocks",
        "check",
        "clear_blocks",
        "cluster",
        "clusters",
        "costs",
        "history",
        "parse",
        "plan",
        "prices",
        "provision",
        "refresh_prices",
        "relax",
        "rename",
        "sweep",
    }
)

__all__ = [
    "NbprovError",
    "__version__",
    "aio",
    "load_ipython_extension",
    "session",
    "unload_ipython_extension",
    *sorted(_VERBS),
]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Load the extension; IPython calls this for `%load_ext nbprov`."""
    from .notebook.extension import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Unload the extension; IPython calls this for `%unload_ext nbprov`."""
    from .notebook.extension import unload

    unload(ipython)


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        from .api import session

        return getattr(session(), name)
    if name == "session":
        from .api import session

        return session
    if name == "aio":
        from .api import aio

        return aio
    if name == "NbprovError":
        from .model.errors import NbprovError

        return NbprovError
    raise AttributeError(f"module 'nbprov' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
