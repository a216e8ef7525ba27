"""The Python that setup, run and cells find on a machine, as a spec asks for it."""

from __future__ import annotations

from dataclasses import dataclass

KEEP, DOWN = "keep", "down"
"""What becomes of a cluster whose files, Python or setup failed: it is kept for repair, or ended."""


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter and packages, the same on every node. At least one field is given; `lock` stands without the requirements.

    Attributes
    ----------
    version
        `3.12` or `3.12.4`; empty: the machine's own, or what the project of `lock` asks for.
    requirements
        Requirements as pip takes them, `pandas>=2`.
    file
        Path here of a requirements file or a `pyproject.toml`.
    lock
        Path of a `uv.lock`, or of the folder that holds it beside its `pyproject.toml`: here, or in the git repository that `workdir` is.
    """

    version: str = ""
    requirements: tuple[str, ...] = ()
    file: str = ""
    lock: str = ""

    def __str__(self) -> str:
        packages = self.lock or self.file or ", ".join(self.requirements)
        return " with ".join(part for part in (self.version, packages) if part)
