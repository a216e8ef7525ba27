"""Which files have changed, and which unit tests show a change.

A changed module is shown by the unit tests of its own package that import it, themselves or through
a helper of the tests; where its package has no such test, by all unit tests that import it
themselves. A changed test shows itself, and a changed helper is shown by the unit tests that import
it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tree import ROOT, source_files

PACKAGE = "nbprov"
UNIT = PurePosixPath("tests/unit")
DOTTED = re.compile(rf"\b{PACKAGE}(?:\.\w+)+")


def changed_files(base: str = "", root: Path = ROOT) -> list[str]:
    """Files that differ from a commit and still exist, and files that git does not track yet.

    Parameters
    ----------
    base
        The commit to compare with; by default the one where this branch left `main`.
    """
    start = base or _git(root, "merge-base", "HEAD", "main") or "HEAD"
    names = _git(root, "diff", "--name-only", "-z", start, "--").split("\0")
    names += _git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted({name for name in names if name and (root / name).is_file()})


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


class TestImports:
    """What each file of the tests imports: modules of the package, and other files of the tests.

    Parameters
    ----------
    files
        All files of the project, as paths relative to the root.
    """

    __test__ = False

    def __init__(self, files: Iterable[str], root: Path = ROOT) -> None:
        self._root = root
        names = [PurePosixPath(name) for name in files if name.endswith(".py")]
        self._modules = {_dotted(path): str(path) for path in names if path.parts[0] == PACKAGE}
        self._tests = {str(path) for path in names if path.parts[0] == "tests"}
        self._helpers: dict[str, list[str]] = {}
        for name in sorted(self._tests):
            self._helpers.setdefault(PurePosixPath(name).stem, []).append(name)
        self._with_machines: set[str] = set()
        self._imports = {name: self._read(name) for name in sorted(self._tests)}

    def showing(self, changed: Iterable[str]) -> list[str]:
        """The unit tests that show these changes: the nearest first, and of those the quickest."""
        distance: dict[str, int] = {}
        for name in changed:
            found = [(test, steps) for test, steps in self._importers(name) if _is_unit_test(test)]
            if name not in self._tests:
                own = [(test, steps) for test, steps in found if _mirrors(test, name)]
                found = own or [(test, steps) for test, steps in found if steps == 1]
            for test, steps in found:
                distance[test] = min(steps, distance.get(test, steps))
        return sorted(
            distance, key=lambda test: (distance[test], test in self._with_machines, test)
        )

    def _importers(self, name: str) -> Iterator[tuple[str, int]]:
        """Files of the tests that import a file, with the number of imports on the way to it."""
        path = PurePosixPath(name)
        if path.name == "conftest.py":
            near = [test for test in self._tests if PurePosixPath(test).is_relative_to(path.parent)]
            yield from ((test, 1) for test in near)
            return
        seen, wave, steps = {name}, {name}, 0
        while wave:
            yield from ((test, steps) for test in wave if test in self._tests)
            wave = {test for test, its in self._imports.items() if its & wave} - seen
            seen |= wave
            steps += 1

    def _read(self, name: str) -> set[str]:
        text = (self._root / name).read_text(encoding="utf-8")
        if "mark.machine" in text:
            self._with_machines.add(name)
        # Names in strings count too: what is replaced by name, and programs that run elsewhere.
        found = {self._modules[m] for word in DOTTED.findall(text) if (m := self._module(word))}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= self._imported(node.module, [alias.name for alias in node.names])
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found |= self._imported(alias.name, [])
        return found - {name}

    def _imported(self, module: str, names: list[str]) -> set[str]:
        if module.split(".")[0] != PACKAGE:
            return set(self._helpers.get(module, ()))
        found = {f"{module}.{name}" for name in names} | {module}
        found |= set(self._reexported(module, names))
        return {self._modules[name] for name in found if name in self._modules}

    def _reexported(self, module: str, names: list[str]) -> Iterator[str]:
        """The modules from which a package takes names that are imported from it."""
        path = self._modules.get(module, "")
        if not path.endswith("__init__.py"):
            return
        for node in ast.walk(ast.parse((self._root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & {*names}:
                above = module.split(".")[: len(module.split(".")) - max(0, node.level - 1)]
                yield ".".join([*(above if node.level else ()), *filter(None, [node.module])])

    def _module(self, dotted: str) -> str:
        while dotted and dotted not in self._modules:
            dotted = dotted.rpartition(".")[0]
        return dotted


def _dotted(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_unit_test(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_relative_to(UNIT) and path.name.startswith("test_")


def _mirrors(test: str, module: str) -> bool:
    """Whether a unit test belongs to the package of a module.

    `tests/unit/x/` mirrors `nbprov/x/`.
    """
    of_test = PurePosixPath(test).relative_to(UNIT).parts
    of_module = PurePosixPath(module).parts[1:]
    return (of_test[0] if len(of_test) > 1 else "") == (of_module[0] if len(of_module) > 1 else "")


def changes(base: str = "", root: Path = ROOT) -> tuple[list[str], list[str]]:
    """The changed files, and the unit tests that show them."""
    changed = changed_files(base, root)
    return changed, TestImports(source_files(root), root).showing(changed)
