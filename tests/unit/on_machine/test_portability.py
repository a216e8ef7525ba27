"""What runs on a machine: Python 3.8, its standard library, and nothing of ours from elsewhere."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbprov.on_machine
from nbprov.machines.files import git_checkout
from nbprov.machines.python import environment
from nbprov.machines.variables import transfer
from nbprov.remote.download import download
from nbprov.remote.sync import client

FOLDER = Path(nbprov.on_machine.__file__).parent
MODULES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py"))
PROGRAMS = [
    client.PROGRAM,
    download.PROGRAM,
    git_checkout.PROGRAM,
    environment.PROGRAM,
    transfer.PROGRAM,
]
THERE = {
    "agent/kernels/host.py": {"jupyter_client", "ipykernel"},
    "agent/kernels/package_install.py": {"pip"},
    "plain_forms.py": {"numpy", "pandas"},
}
"""Libraries that a module uses only where it runs, imported inside its functions."""


def tree_of(name: str) -> ast.Module:
    return ast.parse((FOLDER / name).read_text(encoding="utf-8"), feature_version=(3, 8))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported module: its first name (or whole name, if relative) and the dots before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], 0
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module or "")
            yield (module if node.level else module.partition(".")[0]), node.level


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_python_3_8_and_imports_the_standard_library_and_its_own_folder(
    name: str,
) -> None:
    found = set(imports(tree_of(name)))
    foreign = {module for module, level in found if not level} - sys.stdlib_module_names
    assert foreign <= THERE.get(name, set())
    # More dots than folders above it would lead out of `on_machine`.
    assert max(level for _, level in {("", 0), *found}) <= len(Path(name).parts)


@pytest.mark.parametrize("name", THERE)
def test_libraries_of_the_machine_are_imported_inside_functions_alone(name: str) -> None:
    top = ast.Module(
        [n for n in tree_of(name).body if isinstance(n, ast.Import | ast.ImportFrom)], []
    )
    assert {module for module, level in imports(top) if not level} <= sys.stdlib_module_names


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_holds_every_module_that_it_imports(program: tuple[str, ...]) -> None:
    for name in program:
        assert {module for module, level in imports(tree_of(f"{name}.py")) if level} <= {*program}
