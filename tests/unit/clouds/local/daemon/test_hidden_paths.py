"""What a machine in bubblewrap sees: the homes and services are hidden, and Python is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.local.daemon import hidden_paths
from nbprov.clouds.local.daemon.hidden_paths import ViewStep, view_steps
from nbprov.clouds.local.secret_places import FILE_VARIABLES, FOLDER_VARIABLES

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda p: Path("/", *p))


@given(st.sets(PATHS, max_size=5), st.sets(PATHS, max_size=5), PATHS)
def test_the_innermost_path_decides(hidden: set[Path], shown: set[Path], file: Path) -> None:
    steps = list(view_steps(hidden, shown))
    is_seen = True
    for step in steps:  # in this order they are mounted
        if file.is_relative_to(step.path):
            is_seen = step.is_shown
    nearest = next((p for p in (file, *file.parents) if p in hidden | shown), None)
    assert is_seen is (nearest is None or nearest not in hidden)
    assert all(ViewStep(step.path, True) != step or step.path not in hidden for step in steps)


def _seen(path: Path, made: hidden_paths.HiddenPaths) -> bool:
    is_seen = True
    for step in view_steps(*made):
        if path.is_relative_to(step.path):
            is_seen = step.is_shown
    return is_seen


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in (".ssh", ".local/share/jupyter/runtime", "proj/.venv/lib", "proj/src"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_the_home_is_hidden_and_a_python_in_it_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(home / "proj" / ".venv"))
    monkeypatch.setattr(sys, "executable", str(home / "proj" / ".venv" / "bin" / "python"))
    made = hidden_paths.hidden_paths([])
    assert not any(
        _seen(home / name, made)
        for name in (".ssh/id", ".local/share/jupyter/runtime/kernel-1.json", "proj/src", "proj")
    )
    assert _seen(home / "proj/.venv/lib/x.py", made)
    for path in (sys.base_prefix, hidden_paths.base_python(), *hidden_paths.host_packages()):
        assert _seen(Path(path), made)


def test_a_home_that_is_itself_an_environment_shows_python_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(home))
    made = hidden_paths.hidden_paths([])
    assert _seen(home / "lib/python3/x.py", made)
    assert not _seen(home / ".ssh/id", made)
    inside = home / "lib" / "nbprov"
    inside.mkdir(parents=True)
    assert not _seen(inside / "ledger", hidden_paths.hidden_paths([inside])), (
        "hidden where it is deepest"
    )


@pytest.mark.parametrize("name", [*FOLDER_VARIABLES, *FILE_VARIABLES])
def test_what_a_variable_names_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "secret").mkdir()
    monkeypatch.setenv(name, str(tmp_path / "secret"))
    assert not _seen(tmp_path / "secret" / "x", hidden_paths.hidden_paths([]))


def test_the_system_stays_where_a_home_is_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    for odd in ("/", "/usr", "/etc", "/nonexistent"):
        monkeypatch.setenv("HOME", odd)
        made = hidden_paths.hidden_paths([])
        assert all(_seen(Path(path), made) for path in ("/usr/bin/env", "/etc/passwd"))
        assert not _seen(Path("/run/docker.sock"), made)
