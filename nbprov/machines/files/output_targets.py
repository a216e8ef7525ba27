"""Where the outputs of a spec lie on a node, and where they go on this computer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nbprov.machines.local_paths import local_path
from nbprov.model.errors import UsageError
from nbprov.model.sources import WORKDIR, Mount
from nbprov.model.spec import Spec
from nbprov.on_machine.sync_files import SyncFolder
from nbprov.remote.pull.options import PullOptions
from nbprov.remote.pull.patterns import MAGIC
from nbprov.remote.sync.inert_names import is_hidden, is_imported, is_in_repository

HINT = (
    "name one below the notebook's folder, or agree to another by naming it:"
    " %%provision NAME --outputs-to FOLDER"
)


@dataclass(frozen=True, slots=True)
class OutputFolders:
    """The folders of this computer that outputs may be written to.

    Attributes
    ----------
    notebook
        The notebook's folder, which relative targets start at.
    own
        The cluster's own folder, for outputs without a target. It is below the notebook's, unless a
        person named another one, which is an agreement to targets below it.
    is_named
        Whether a person named it.
    """

    notebook: Path
    own: Path
    is_named: bool = False

    @classmethod
    def agreed(cls, notebook: str, named: str, cluster: str) -> OutputFolders:
        """Return the folders of a launch.

        Parameters
        ----------
        named
            The folder that a person named, relative to the notebook's; empty for `NAME-outputs`.

        Raises
        ------
        UnusablePath
            If that can be no folder of this computer.
        """
        folder = Path(os.path.realpath(notebook or "."))
        if not named:
            return cls(folder, folder / f"{cluster}-outputs")
        return cls(folder, Path(os.path.realpath(local_path(named, folder, "--outputs-to"))), True)

    def why_not(self, target: Path) -> str:
        """Return why nothing may be written to a path; empty if it may.

        Links are followed first. It is asked at Launch, and again by whichever kernel writes.
        """
        real = Path(os.path.realpath(target))
        notebook = Path(os.path.realpath(self.notebook))
        root = next((root for root in (self.own, notebook) if real.is_relative_to(root)), None)
        if root is None:
            return "is outside the notebook's folder"
        home = Path(os.path.realpath(os.path.expanduser("~")))
        parts = real.relative_to(home if real.is_relative_to(home) else root).parts
        if any(map(is_hidden, parts)):
            return "goes through a hidden name, where programs keep their settings"
        if any(map(is_imported, real.parts)):
            return "is where Python loads what it finds"
        if is_in_repository(str(root), str(real.relative_to(root) / "x")):
            return "is a git repository, whose files git runs"
        return ""

    def target(self, mount: Mount) -> tuple[Path, bool]:
        """Return where an output goes, and whether it keeps its own name there.

        Raises
        ------
        UnusablePath
            If its target can be no path of this computer.
        """
        has_pattern = bool(MAGIC.search(mount.source))
        if not mount.target:
            return self.own, True
        target = local_path(mount.target, self.notebook, "outputs")
        own_name = (
            os.path.normpath(mount.target) == "."
            or mount.target.endswith(("/", os.sep))
            or has_pattern
        )
        if has_pattern and SyncFolder(str(target)).is_home_or_above():
            # With a pattern the machine chooses the names, and a home has files that programs run
            # by name.
            target = self.own
        return target, own_name


def check_outputs(spec: Spec, folders: OutputFolders) -> None:
    """Check before a launch that outputs go only to where they may.

    Raises
    ------
    UsageError
        `outputs.target` or `path.unusable`, naming the output or the path.
    """
    for mount in spec.outputs:
        target, _ = folders.target(mount)
        if why := folders.why_not(target):
            raise UsageError(
                f"outputs: {mount.source} would go to {target}, which {why}",
                hint=HINT,
                code="outputs.target",
            )


def target_notes(spec: Spec, folders: OutputFolders) -> Iterator[str]:
    """Yield a line for each folder that outputs go to, for the plan and the panel."""
    places: dict[Path, list[str]] = {}
    for mount in spec.outputs:
        places.setdefault(folders.target(mount)[0], []).append(mount.source)
    for target, sources in places.items():
        where = os.path.normpath(target)
        is_own = Path(where).is_relative_to(folders.own)
        elsewhere = "" if is_own else ", which is not the cluster's own folder"
        why = folders.why_not(target)
        refused = f"; refused: it {why}" if why else ""
        yield f"outputs {', '.join(sources)} are written to {where}{elsewhere}{refused}"


def wishes(
    spec: Spec,
    folders: OutputFolders,
    name: str,
    node: int,
    memory: Callable[[str], Path | None] = lambda key: None,
    *,
    keep_names: bool = False,
) -> list[PullOptions]:
    """Return what a spec wants pulled from a node.

    A relative source starts where `setup` and `run` do: in `~/sky_workdir` if there is a
    `workdir`, else in the home. What comes from another node than the head is put into a folder
    `node1` and so on. A relative source without a target keeps its whole path.

    Examples
    --------
    >>> spec = Spec(outputs=(Mount("", "one/*.pt"), Mount("./out", "/data/x")))
    >>> found = wishes(spec, OutputFolders(Path("/nb"), Path("/nb/dev-outputs")), "dev", 1)
    >>> [(wish.source, str(wish.target), wish.own_name, wish.below) for wish in found]
    [('~/one/*.pt', '/nb/dev-outputs', True, 'node1/one'), ('/data/x', '/nb/out', False, 'node1')]
    """
    found = []
    for mount in spec.outputs:
        source = _there(mount.source, has_workdir=bool(spec.workdir))
        target, own_name = folders.target(mount)
        key = f"outputs\0{node}\0{source}\0{target}"
        below = [*([f"node{node}"] if node else []), *_folders_kept(mount)]
        found.append(
            PullOptions(
                *(source, target, own_name, "/".join(below), f"from-{name}", memory(key)),
                keep_names=keep_names,
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
