"""Which files belong to the project.

What git tracks or would track, or, in a copy without git, all but what make makes.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def source_files(root: Path = ROOT) -> list[str]:
    """The project's files as paths relative to the root, sorted, with forward slashes."""
    if (root / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            [
                "git",
                "-c",
                f"safe.directory={root}",
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        return sorted(
            name for name in listed.stdout.split("\0") if name and (root / name).is_file()
        )
    return sorted(_walk(root))


def _walk(root: Path) -> list[str]:
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")] + [".git"]
    names: list[str] = []
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not _ignored(here / name, patterns)]
        names += [(here / name).as_posix() for name in files if not _ignored(here / name, patterns)]
    return names


def _ignored(path: Path, patterns: list[str]) -> bool:
    return any(
        fnmatch.fnmatch(path.as_posix() if "/" in pattern else path.name, pattern)
        for pattern in patterns
    )
