"""Load and unload the extension.

Loading is cheap, because heavy modules are imported only when a magic needs them.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nbprov.model import paths
from nbprov.model.errors import UsageError

from .panels import frontend

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

_MARK = "_nbprov_extension"
_LOG = "nbprov"
_FOLLOWER = "nbprov.notebook.panels.display_follower"
_PAGE_LINK = "nbprov.notebook.panels.page_link"
"""Looked up in `sys.modules` only: if they were never imported, there is no display."""

_PANELS_AFTER_SECONDS = 1.0
"""How long after a load the panels are imported, and those of earlier kernels become live again.
It takes some 0.3 s, for which the cells right behind the load would have to wait."""

log = logging.getLogger("nbprov.notebook")


class _Registration(NamedTuple):
    """What was registered with a shell.

    The shell keeps it, because after autoreload this module has other function objects.
    """

    magics: Any
    matcher: Any
    before_cell: Any
    after_cell: Any
    log: logging.Handler
    remove_inspection: Callable[[], None]
    panel_timer: threading.Timer | None
    transform: Any


def load(shell: InteractiveShell) -> None:
    """Register the magics and the completer.

    If the ledger has live clusters or launches of an earlier kernel, one line of output reports
    what is found.

    Raises
    ------
    UsageError
        On ipykernel 7.0, which loses background updates.
    """
    _refuse_broken_kernel()
    if getattr(shell, _MARK, None) is not None:
        return  # already loaded; autoreload calls this again
    from .completion.matcher import match
    from .completion.remote_inspect import install
    from .empty_cells import give_body
    from .logfile import LogFile
    from .magics.magics import Nbprov

    magics: Any = Nbprov(shell=shell)
    loaded = _Registration(
        magics,
        match,
        _forget_outputs,
        _flush_displays,
        LogFile(paths.home() / "logs" / "nbprov.log"),
        install(shell),
        _panel_timer(shell),
        give_body,
    )
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(loaded.matcher)
    shell.input_transformers_cleanup.append(loaded.transform)
    shell.events.register("pre_run_cell", loaded.before_cell)
    shell.events.register("post_run_cell", loaded.after_cell)
    logging.getLogger(_LOG).addHandler(loaded.log)
    setattr(shell, _MARK, loaded)
    if loaded.panel_timer is not None:
        loaded.panel_timer.start()
    if _has_live_rows():
        from .load_message import report_earlier_kernels

        report_earlier_kernels()


def unload(shell: InteractiveShell) -> None:
    """Remove the magics and the completer. Machines and their guards keep running."""
    loaded: _Registration | None = getattr(shell, _MARK, None)
    if loaded is None:
        return
    if loaded.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    if loaded.transform in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(loaded.transform)
    shell.events.unregister("pre_run_cell", loaded.before_cell)
    shell.events.unregister("post_run_cell", loaded.after_cell)
    loaded.remove_inspection()
    for kind in ("line", "cell"):
        for name, function in loaded.magics.magics[kind].items():
            # Another extension may have taken the name meanwhile and keeps it.
            if shell.magics_manager.magics[kind].get(name) == function:
                del shell.magics_manager.magics[kind][name]
    if loaded.magics in shell.configurables:
        shell.configurables.remove(loaded.magics)
    logging.getLogger(_LOG).removeHandler(loaded.log)
    loaded.log.close()
    delattr(shell, _MARK)
    if loaded.panel_timer is not None:
        loaded.panel_timer.cancel()
        loaded.panel_timer.join()
    _close_session()


def _close_session() -> None:
    follower, api = sys.modules.get(_FOLLOWER), sys.modules.get("nbprov.api")
    link = sys.modules.get(_PAGE_LINK)
    if follower is not None:
        follower.DisplayFollower.stop_all()
    if link is not None:
        link.page_link.close()
    if api is not None:
        api.close()


def _panel_timer(shell: InteractiveShell) -> threading.Timer | None:
    """Return what imports the panels soon; None where nobody watches the notebook."""
    if not frontend.is_interactive():
        return None
    timer = threading.Timer(_PANELS_AFTER_SECONDS, _open_panels, [shell])
    timer.name, timer.daemon = "nbprov-panels", True
    return timer


def _open_panels(shell: InteractiveShell) -> None:
    """Make the panels that an earlier kernel left in the notebook live again, and have the pages
    tell what is typed into `%%provision` cells.

    What this imports is also what the first table of this kernel needs.
    """
    try:
        if frontend.current() is not frontend.Frontend.WIDGETS:
            return
        from .completion.cell_problems import problems_in
        from .panels.page_link import page_link

        if os.path.exists(_ledger()):  # no error where the home cannot be read
            from .commands.dashboard import dashboard_subject
            from .magics.subjects import DASHBOARD, more_subjects

            more_subjects[DASHBOARD] = dashboard_subject
        page_link.check = lambda source: problems_in(source, dict(shell.user_ns))
        page_link.open()
    except Exception:
        log.exception("the link to the pages could not be opened")


def _forget_outputs(info: Any = None) -> None:
    """Forget what a cell showed that runs again: no page may be given it from now on."""
    link = sys.modules.get(_PAGE_LINK)
    if link is not None and (cell := getattr(info, "cell_id", None)):
        link.page_link.cell_begins(str(cell))


def _flush_displays(result: Any = None) -> None:
    """Update all displays at the end of a cell that nobody watches, before it may be saved."""
    follower = sys.modules.get(_FOLLOWER)
    if follower is None:
        return
    if frontend.current() is frontend.Frontend.STATIC:
        follower.DisplayFollower.flush()


def _refuse_broken_kernel() -> None:
    kernel = sys.modules.get("ipykernel")
    version = getattr(kernel, "version_info", (0, 0))
    if tuple(version[:2]) == (7, 0):
        raise UsageError(
            "ipykernel 7.0 loses the output of background threads (ipywidgets issue 4001)",
            hint="run pip install 'ipykernel>=7.1', then restart the kernel",
            code="kernel.unsupported",
        )


def _has_live_rows() -> bool:
    from nbprov.provisioning.live_rows import has_live_rows

    return has_live_rows(_ledger())


def _ledger() -> Path:
    return paths.home() / "ledger.sqlite3"
