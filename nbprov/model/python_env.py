"""The Python environment of a machine, as a spec asks for it."""

from __future__ import annotations

from dataclasses import dataclass

KEEP, DOWN = "keep", "down"
"""What happens to a cluster whose files, Python or setup failed: it is kept for repair, or ended.
"""


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter and packages, the same on every node.

    At least one field is given; `lock` excludes the requirements.

    Attributes
    ----------
    version
        `3.12` or `3.12.4`; empty for the machine's own, or the one that the project of `lock`
        requires.
    requirements
        Requirements as pip takes them, `pandas>=2`.
    file
        Local path of a requirements file or a `pyproject.toml`.
    lock
        Path of a `uv.lock`, or of the folder that holds it and its `pyproject.toml`: a local one,
        or one in the git repository that is `workdir`.
    """

    version: str = ""
    requirements: tuple[str, ...] = ()
    file: str = ""
    lock: str = ""

    def __str__(self) -> str:
        packages = self.lock or self.file or ", ".join(self.requirements)
        return " with ".join(part for part in (self.version, packages) if part)
