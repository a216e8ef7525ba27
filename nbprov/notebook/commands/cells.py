"""`%nbprov cells`: the cells of a machine, from all kernels, and their output."""

from __future__ import annotations

import argparse
import queue
from pathlib import Path
from typing import Any

from nbprov.api import session
from nbprov.machines.local_paths import local_path
from nbprov.model.clock import short_duration
from nbprov.model.errors import Interrupted, NotFound, UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.cell_sources import first_line_of
from nbprov.notebook.remote_output import OutputQueue, publish_until_done
from nbprov.notebook.rendering.formatting import format_utc
from nbprov.notebook.rendering.tables import Column, text_table
from nbprov.notebook.terminal import say

MOST_ROWS = 30
"""The most cells in the listing, the latest ones."""


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov cells`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument(
        "cell",
        nargs="?",
        default="",
        help="the id of a cell, the beginning of one, or `last`; without it the cells are listed",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="show its output until it ends; Ctrl-C stops following, not the cell",
    )
    how.add_argument(
        "--interrupt", action="store_true", help="interrupt it, as the stop button does"
    )
    how.add_argument(
        "--save", metavar="FILE", help="write its text to a local file instead of showing it"
    )
    parser.add_argument(
        "--node", type=int, default=0, metavar="N", help="which node (default: 0, the head)"
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """List the cells of a machine, or show, follow, save or interrupt one of them.

    Raises
    ------
    NotFound
        If there is no such cluster or cell.
    """
    from nbprov.machines.cells.history import find_cell, interrupt_cell, list_cells

    here, name, node = session(), arguments.name, arguments.node
    if not arguments.cell:
        if arguments.follow or arguments.interrupt or arguments.save:
            raise UsageError(
                "which cell?",
                hint=f"%nbprov cells {name} last --follow; %nbprov cells {name} lists them",
            )
        _list(name, here.wait_remote(name, lambda live: list_cells(live, node)))
        return
    found = here.wait_remote(name, lambda live: find_cell(live, arguments.cell, node))
    if arguments.interrupt:
        was_live = here.wait_remote(name, lambda live: interrupt_cell(live, found.id, node))
        say(f"{found.id}: {'interrupted' if was_live else 'it had already ended'}")
    elif arguments.save:
        _save(name, found.id, node, local_path(arguments.save, Path(), "--save"))
    else:
        _show(shell, name, found, node, to_the_end=arguments.follow)


def _list(name: str, cells: list[Any]) -> None:
    if not cells:
        say(f"no cell has run on {name}")
        return
    now = session().engine.clock.now()
    rows = [
        [
            task.id,
            task.status or task.state,
            format_utc(task.started or task.created),
            short_duration((task.ended or now) - (task.started or task.created)),
            first_line_of(task.id),
        ]
        for task in cells[-MOST_ROWS:]
    ]
    for line in text_table(
        [
            Column("id"),
            Column("state"),
            Column("started"),
            Column("time"),
            Column("code (cells of this kernel)"),
        ],
        rows,
    ):
        say(line)


def _show(shell: Any, name: str, found: Any, node: int, *, to_the_end: bool) -> None:
    from nbprov.machines.cells.history import replay

    outputs: OutputQueue = queue.SimpleQueue()
    future = session().start_remote(
        name,
        lambda live: replay(live, found.id, node, on_output=outputs.put, to_the_end=to_the_end),
    )
    try:
        publish_until_done(shell, future, outputs)
    except KeyboardInterrupt:
        future.cancel()
        raise Interrupted(f"no longer following; the cell on {name} keeps running") from None
    if not found.is_over and not to_the_end:
        say(f"… it is still running: %nbprov cells {name} {found.id} --follow")


def _save(name: str, id: str, node: int, path: Path) -> None:
    from nbprov.machines.cells.history import kept_text

    text, has_gap = session().wait_remote(name, lambda live: kept_text(live, id, node))
    write_text_file(path, text)
    missing = "; some of it is missing: the machine keeps the last 32 MB of a cell"
    say(f"{path}: {len(text):,} characters of {id}{missing if has_gap else ''}")


def write_text_file(path: Path, text: str) -> None:
    """Write what a machine printed to a file.

    Raises
    ------
    NotFound
        If the file cannot be written, with the reason.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        why = (
            "it is a folder"
            if path.is_dir()
            else "its folder does not exist"
            if not path.parent.is_dir()
            else error.strerror or str(error)
        )
        raise NotFound(
            f"{path} cannot be written: {why}",
            hint="name another file",
            code="file.not-written",
        ) from None
