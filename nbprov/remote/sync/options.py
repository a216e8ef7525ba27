"""What a sync is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .plan import Direction


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Which folders to bring into step, and how.

    Attributes
    ----------
    here
        The folder on this computer.
    there
        The folder on the machine, absolute or below its home.
    delete
        Delete from the target what the source does not have.
    dry
        Only make the plan.
    keep_names
        Bring also files that are new here and whose ending is not one of data.
    memory
        The file that remembers which files were found the same. With None nothing is remembered,
        and all files are compared by digest.
    ssh
        The words of an ssh command that reaches the machine, without a host, for rsync. Where
        there are none, rsync is not used.
    """

    here: Path
    there: str
    direction: Direction
    delete: bool = False
    dry: bool = False
    memory: Path | None = None
    ssh: tuple[str, ...] = ()
    keep_names: bool = False
