"""The limits of the code base: no circles of imports, small folders, files and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import nbprov

ROOT = Path(nbprov.__file__).parent
MOST_MODULES = 20
MOST_LINES = 400
MOST_FUNCTION_LINES = 60
DOCSTRING_LINES = range(2, 8)
"""A folder's docstring: what lives here, what it may import, where to start reading."""

TABLES: frozenset[str] = frozenset()
"""Files that are tables of data, which may be longer."""


def _modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py"))


def _folders() -> list[Path]:
    return sorted({path.parent for path in _modules()})


def _name(path: Path) -> str:
    return path.relative_to(ROOT.parent).as_posix()


def _circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{_name(path)}: {node.name}", node.end_lineno - node.lineno + 1


def test_imports_have_no_circle() -> None:
    """Imports for types alone count too."""
    graph = grimp.build_graph("nbprov", exclude_type_checking_imports=False, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports) > 500, "the graph holds the whole package"
    assert _circle(imports) == []


def test_a_circle_would_be_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("folder", _folders(), ids=_name)
def test_a_folder_is_small_and_says_what_lives_in_it(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, f"{len(modules)} modules: give it sub-packages"
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(text)) or ""
    assert len(words.splitlines()) in DOCSTRING_LINES, words


def test_no_file_is_too_long() -> None:
    lengths = {_name(path): path.read_bytes().count(b"\n") for path in _modules()}
    assert {k: n for k, n in lengths.items() if n > MOST_LINES and k not in TABLES} == {}


def test_no_function_is_too_long() -> None:
    found = dict(pair for path in _modules() for pair in _functions(path))
    assert len(found) > 1000
    assert {name: lines for name, lines in found.items() if lines > MOST_FUNCTION_LINES} == {}


def test_a_class_name_means_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for path in _modules():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(_name(path))
    assert len(found) > 500
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_class_has_two_bases_of_ours() -> None:
    classes = [
        (path, node)
        for path in _modules()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    ours = {node.name for _, node in classes}
    assert len(ours) > 500
    for path, node in classes:
        bases = [ast.unparse(base).partition("[")[0].split(".")[-1] for base in node.bases]
        assert len(ours & set(bases)) <= 1, f"{_name(path)}: {node.name}{bases}"
