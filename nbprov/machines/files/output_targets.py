"""Where the outputs of a spec lie on a node, and where they go on this computer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nbprov.model.sources import WORKDIR, Mount
from nbprov.model.spec import Spec
from nbprov.on_machine.sync_files import SyncFolder
from nbprov.remote.pull.autoload_names import is_worked_in
from nbprov.remote.pull.options import PullOptions
from nbprov.remote.pull.patterns import MAGIC


def wishes(
    spec: Spec,
    folder: Path,
    name: str,
    node: int,
    memory: Callable[[str], Path | None] = lambda key: None,
) -> list[PullOptions]:
    """Return what a spec wants pulled from a node.

    A relative source starts where `setup` and `run` do: in `~/sky_workdir` if there is a
    `workdir`, else in the home. What comes from another node than the head is put into a folder
    `node1` and so on. A relative source without a target keeps its whole path.

    Examples
    --------
    >>> spec = Spec(outputs=(Mount(".", "one/*.pt"), Mount("./out", "/data/x")))
    >>> found = wishes(spec, Path("/nb"), "dev", 1)
    >>> [(wish.source, str(wish.target), wish.own_name, wish.below) for wish in found]
    [('~/one/*.pt', '/nb', True, 'node1/one'), ('/data/x', '/nb/out', False, 'node1')]
    """
    found = []
    for mount in spec.outputs:
        source = _there(mount.source, has_workdir=bool(spec.workdir))
        target, own_name = _here(mount, folder, name)
        key = f"outputs\0{node}\0{source}\0{target}"
        below = [*([f"node{node}"] if node else []), *_folders_kept(mount)]
        at_work = bool(MAGIC.search(source)) and is_worked_in(
            str(target.joinpath(*below)), str(folder)
        )
        found.append(
            PullOptions(
                source, target, own_name, "/".join(below), f"from-{name}", memory(key), at_work
            )
        )
    return found


def _folders_kept(mount: Mount) -> list[str]:
    """Return the folders above a relative source without a target.

    They are kept, since `one/out` and `two/out` must not become one.
    """
    if os.path.normpath(mount.target) != "." or mount.source.startswith(("/", "~")):
        return []
    parts = [part for part in mount.source.split("/") if part not in ("", ".")]
    return parts[: next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts) - 1)]


def _there(source: str, *, has_workdir: bool) -> str:
    if source.startswith(("/", "~")):
        return source.rstrip("/") or "/"
    parts = [part for part in source.split("/") if part not in ("", ".")]
    return "/".join(["~", *([WORKDIR] if has_workdir else []), *parts])


def _here(mount: Mount, folder: Path, name: str) -> tuple[Path, bool]:
    target = folder / Path(mount.target).expanduser()
    own_name = (
        os.path.normpath(mount.target) == "."
        or mount.target.endswith(("/", os.sep))
        or bool(MAGIC.search(mount.source))
    )
    if own_name and MAGIC.search(mount.source) and SyncFolder(str(target)).is_home_or_above():
        # With a pattern the machine chooses the names, and a home has files that programs run
        # by name: the outputs get a folder of their own there.
        target = target / f"{name}-outputs"
    return target, own_name
