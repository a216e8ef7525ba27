"""Checks of imports: none that costs before a call is made, and of nbprov only what may be used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .checks import check
from .subject import CloudUnderTest

ALLOWED = ("nbprov.model", "nbprov.clouds")
LOADED = """
import json, sys
sys.path[:] = {path!r}
import nbprov.clouds.base, nbprov.clouds.registry
before = set(sys.modules)
import {package}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@check
def the_package_imports_nothing_before_a_call(subject: CloudUnderTest) -> None:
    module = type(subject.cloud).__module__
    package = module.rpartition(".")[0] or module
    script = LOADED.format(path=sys.path, package=package)
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, f"`import {package}` failed: {run.stderr}"
    free = {*sys.stdlib_module_names, "nbprov", package.partition(".")[0]}
    heavy = sorted({name.partition(".")[0] for name in json.loads(run.stdout)} - free)
    assert heavy == [], (
        f"`import {package}` loads {', '.join(heavy)}: import such things in the functions that"
        " use them, because plans of other clouds load this package too"
    )


@check
def the_package_uses_the_model_and_the_clouds_alone(subject: CloudUnderTest) -> None:
    module = sys.modules[type(subject.cloud).__module__]
    folder = Path(str(module.__file__)).parent
    for file in sorted(folder.rglob("*.py")):
        for name in imported(file):
            assert not name.startswith("nbprov") or name.startswith(ALLOWED), (
                f"{file.name} imports {name}: a cloud may use {' and '.join(ALLOWED)}; the rest"
                " changes without notice"
            )


def imported(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports by their full names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                whole = node.module == "nbprov"
                yield f"nbprov.{one.name}" if whole else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
