"""Which names a pattern does not let a machine choose in a folder that programs here work in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nbprov.remote.pull.autoload_names import is_worked_in, why_apart

HELD = {
    ("*", "numpy.py"): "*.py",
    ("*", "NUMPY.Py"): "*.py",
    ("*", "sub/x.cpython-311-x86_64-linux-gnu.so"): "**/*.so",
    ("*.p*", "json.py"): "*.py",
    ("**/*", "a/b.pyc"): "**/*.pyc",
    ("*", "Makefile"): "Makefile",
    ("*", "matplotlibrc"): "matplotlibrc",
    ("*", "x.dist-info/entry_points.txt"): "x.dist-info",
    ("*", "numpy.p\u200cy"): "*.py",
    ("*.toml", "pyproject.toml"): "pyproject.toml",
    (".*", ".env"): ".env",
    ("[.]*", ".vscode/tasks.json"): ".vscode",
}
TAKEN = [
    ("*", "scores.csv"),
    ("*", "run/Makefile"),
    ("*.py", "numpy.py"),
    ("src*/**/*.py", "src1/x.py"),
    ("**/Makefile", "Makefile"),
    (".cov*", ".coverage"),
    ("*", "copy.python"),
]


@pytest.mark.parametrize(("pattern", "name"), HELD)
def test_what_runs_by_itself_is_held_apart_and_the_pattern_for_it_named(
    pattern: str, name: str
) -> None:
    assert why_apart(pattern, name, is_link=False) == HELD[pattern, name]
    assert not why_apart(HELD[pattern, name], name, is_link=False)


@pytest.mark.parametrize(("pattern", "name"), TAKEN)
def test_what_a_pattern_says_comes_as_it_is(pattern: str, name: str) -> None:
    assert not why_apart(pattern, name, is_link=False)


def test_a_link_could_lead_an_import_into_a_folder_of_results() -> None:
    assert why_apart("*", "requests", is_link=True) == "requests"


def test_the_notebooks_folder_and_those_of_imports_are_worked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_worked_in(str(tmp_path / "x" / ".."), str(tmp_path))
    assert not is_worked_in(str(tmp_path / "results"), str(tmp_path))
    assert is_worked_in(str(tmp_path), str(tmp_path / "book"))
    assert not is_worked_in(str(tmp_path / "bo"), str(tmp_path / "book"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib"), ""])
    assert is_worked_in(str(tmp_path / "lib"), str(tmp_path))
