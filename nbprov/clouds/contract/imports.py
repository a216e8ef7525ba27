"""Checks of imports: none that costs before a call is made, and of nbprov only what may be used."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .checks import check
from .subject import CloudUnderTest

ALLOWED = ("nbprov.model", "nbprov.clouds")
NOTEBOOK = frozenset({"IPython", "ipykernel", "ipywidgets", "anywidget"})
"""The notebook's libraries: adapters run in scripts, too."""
IMPORTERS = frozenset({"import_module", "__import__"})
LOADED = """
import importlib, json, pkgutil, sys
sys.path[:] = {path!r}
import nbprov.clouds.base, nbprov.clouds.registry
before, told = set(sys.modules), []

def note(what):
    new = set(sys.modules) - before
    # A folder without code, such as `google`, costs nothing.
    told.append((what, sorted(one for one in new if getattr(sys.modules[one], "__file__", ""))))
    before.update(sys.modules)

package = importlib.import_module({package!r})
note("import {package}")
getattr(package, "missing", str)()
note("{package}.missing()")
cloud = getattr(package, "make", object)()
str(getattr(cloud, "capabilities", ""))
note("{package}.make().capabilities")
for found in pkgutil.walk_packages(getattr(package, "__path__", ()), "{package}."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
        note("import " + found.name)
print(json.dumps(told))
"""
"""Loads a package as a plan does, and then each of its modules, which the first calls do."""


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
    for what, loaded in json.loads(run.stdout.splitlines()[-1]):
        heavy = sorted({name.partition(".")[0] for name in loaded} - free)
        assert heavy == [], (
            f"`{what}` loads {', '.join(heavy)}: import such things in the functions that use them,"
            " because a plan, or the first call of a short one, would wait for them"
        )
        odd = [name for name in loaded if not _may_be_used(name)]
        assert odd == [], (
            f"`{what}` loads {', '.join(odd)}: a cloud may use {' and '.join(ALLOWED)}"
        )


@check
def the_package_uses_the_model_and_the_clouds_alone(subject: CloudUnderTest) -> None:
    module = type(subject.cloud).__module__
    folder = Path(str(sys.modules[module].__file__)).parent
    package = module.rpartition(".")[0]
    for file in sorted(folder.rglob("*.py")):
        inside = ".".join((package, *file.relative_to(folder).parts[:-1]))
        for name in imported(file, inside):
            assert _may_be_used(name), (
                f"{file.name} imports {name}: a cloud may use {' and '.join(ALLOWED)}; the rest"
                " changes without notice, and what is the notebook's is not there in a script"
            )


def _may_be_used(name: str) -> bool:
    first = name.partition(".")[0]
    return name.startswith(ALLOWED) if name.startswith("nbprov.") else first not in NOTEBOOK


def imported(file: Path, package: str) -> Iterator[str]:
    """Yield the modules that a file of this package imports anywhere, by their full names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            named = "." * node.level + (node.module or "")
            source = importlib.util.resolve_name(named, package) if node.level else named
            for one in node.names:
                yield f"nbprov.{one.name}" if source == "nbprov" else source
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function, name = node.func, node.args[0]
            called = getattr(function, "id", getattr(function, "attr", ""))
            if called in IMPORTERS and isinstance(name, ast.Constant):
                yield str(name.value)
