"""What a pull is asked to bring, and what it brought."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PullOptions:
    """What to bring to this computer, and where to put it.

    Attributes
    ----------
    source
        A file, a folder or a pattern on the machine, absolute or below `~`. In a pattern `*`, `?`
        and `[…]` match within one name and `**` matches any folders; a name that begins with a dot
        needs a dot in the pattern.
    target
        The folder here to put it in, or its new name.
    own_name
        Put it into the folder `target` under its own name.
    below
        Folders between `target` and what is brought: those of a node other than the head, or those
        that its name has above it.
    mark
        Ends the name of a file that is put beside one that was changed here: `from-dev`.
    memory
        The file that remembers what was brought. With None every file here that differs counts as
        changed here.
    keep_names
        Leave every name as it is, but for the marks of repositories. Without it, only files whose
        ending is one of data keep their names; others get `.pulled` behind them.
    """

    source: str
    target: Path
    own_name: bool = True
    below: str = ""
    mark: str = "from-machine"
    memory: Path | None = None
    keep_names: bool = False


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull did.

    Attributes
    ----------
    found
        How many files and links match on the machine; none where the source does not exist.
    files, bytes
        What was moved and verified, by the sizes of the files.
    same
        Files that were here already.
    aside
        `(name, name here)` of files that were put beside one that was changed here.
    renamed
        `(name, name here)` of files that did not keep their names, which are not those of data.
    skipped, failed
        `(name, why)`: what cannot travel, and what did not arrive.
    here
        The folder that it came to.
    """

    here: str
    found: int = 0
    files: int = 0
    bytes: int = 0
    same: int = 0
    aside: tuple[tuple[str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
