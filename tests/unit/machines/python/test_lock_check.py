"""A lock that does not match its project is reported, here and in a clone; others are not."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shell_machine import shell_node

from nbprov.api.launching.cluster_reuse import python_differs
from nbprov.machines.python import cloned_lock
from nbprov.machines.python.cloned_lock import read_there
from nbprov.machines.python.lock_check import UnreadableFile, why_stale
from nbprov.machines.python.requirement_files import PythonFilesError, PythonSource, read_source
from nbprov.model.sources import Repository
from nbprov.model.spec import PythonEnvironment
from nbprov.provisioning.live_cluster import LiveCluster

PROJECT = """
[project]
name = "My_App"
dependencies = ["six (>=1.0)", "tabular[fast]>=1.0, <2.0; python_version > '3.8'", \
"Tabular~=1.0", "near @ https://host/near.whl"]
[project.optional-dependencies]
a = ["six==1.16.*"]
all = ["my-app[a]", "tabular"]
[dependency-groups]
dev = ["six!=1.15.0", {include-group = "more"}]
more = ["tabular>=1"]
[tool.uv]
dev-dependencies = ["six<9"]
"""
LOCK = """version = 1
revision = 5
requires-python = ">=3.10, <4"

[[package]]
name = "my-app"
version = "0.1.0"
source = { editable = "." }
dependencies = [
    { name = "six" },
]

[package.metadata]
requires-dist = [
    { name = "my-app", extras = ["a"], marker = "extra == 'all'" },
    { name = "near", url = "https://host/near.whl" },
    { name = "six", specifier = ">=1.0" },
    { name = "six", marker = "extra == 'a'", specifier = "==1.16.*" },
    { name = "tabular", specifier = "~=1.0" },
    { name = "tabular", marker = "extra == 'all'" },
    { name = "tabular", extras = ["fast"], marker = "python_full_version >= '3.9'", \
specifier = ">=1.0,<2.0" },
]
provides-extras = ["a", "all"]

[package.metadata.requires-dev]
dev = [
    { name = "six", specifier = "!=1.15.0" },
    { name = "six", specifier = "<9" },
    { name = "tabular", specifier = ">=1" },
]
more = [{ name = "tabular", specifier = ">=1" }]

[[package]]
name = "six"
version = "1.16.0"
source = { registry = "https://pypi.org/simple" }
"""


@pytest.mark.parametrize(
    "project",
    [
        PROJECT,
        PROJECT.replace("six (>=1.0)", "Six >= 1.0"),
        PROJECT.replace("near @ https://host/near.whl", "near>=3"),
        PROJECT + 'readme = "x"\n',
        "[tool.uv.workspace]\nmembers = ['a']\n",
    ],
)
def test_a_lock_of_its_project_is_in_order_whatever_the_words(project: str) -> None:
    assert why_stale(LOCK, project) == ""
    assert why_stale(LOCK.replace("\n", "\r\n"), project) == ""
    assert why_stale(LOCK.replace("[[package]]", "[[ package ]]"), project) == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"six (>=1.0)"', '"six (>=1.1)"', "six is >=1.1 in pyproject.toml and >=1.0 in the lock"),
        ('"six (>=1.0)"', '"six (>=1.0)", "fresh"', "fresh is not in the lock"),
        ('"near @ https://host/near.whl"', "", "near is in the lock alone"),
        ('"six!=1.15.0", ', '"other", ', "other is not in the lock (group dev)"),
        ('more = ["tabular>=1"]', "more = []", "tabular is in the lock alone (group more)"),
        ("My_App", "other", "the lock does not have the project other"),
        ('"six (>=1.0)"', '"a", "b", "c", "d", "six (>=1.0)"', "c is not in the lock and 1 more"),
    ],
)
def test_what_the_lock_does_not_know_is_named(old: str, new: str, words: str) -> None:
    assert old in PROJECT
    assert words in why_stale(LOCK, PROJECT.replace(old, new))


def test_groups_that_include_each_other_again_and_again_come_to_an_end() -> None:
    each = ", ".join(f'{{include-group = "g{number}"}}' for number in range(8))
    groups = "".join(f'g{number} = [{each}, "six"]\n' for number in range(8))
    project = (
        f'[project]\nname = "my-app"\ndynamic = ["dependencies"]\n[dependency-groups]\n{groups}'
    )
    assert "six is not in the lock (group g0)" in why_stale(
        '[[package]]\nname = "my-app"\nsource = { virtual = "." }\n', project
    )


def test_what_only_a_build_could_tell_is_left_to_uv() -> None:
    groups = PROJECT.partition("[dependency-groups]")[2]
    assert (
        why_stale(
            LOCK,
            f'[project]\nname = "my-app"\ndynamic = ["dependencies"]\n[dependency-groups]{groups}',
        )
        == ""
    )


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_are_told_or_not_read(lock: str, project: str) -> None:
    for one, other in ((lock, "[project]"), (lock, PROJECT), (LOCK, project)):
        with contextlib.suppress(UnreadableFile):
            assert why_stale(one, other).isprintable()


def test_a_stale_lock_is_an_error_before_anything_is_launched(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(LOCK)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    asked = PythonEnvironment(lock="uv.lock")
    assert read_source(asked, tmp_path) is not None
    (tmp_path / "pyproject.toml").write_text(PROJECT.replace("six (>=1.0)", "seven"))
    with pytest.raises(
        PythonFilesError,
        match=r"uv\.lock is not of its pyproject\.toml any more: seven is not in the lock",
    ) as caught:
        read_source(asked, tmp_path)
    assert (caught.value.code, caught.value.hint) == ("python.stale-lock", "uv lock renews it")
    (tmp_path / "uv.lock").write_text("<<<<<<< HEAD\n")
    with pytest.raises(PythonFilesError, match="cannot be read") as caught:
        read_source(asked, tmp_path)
    assert caught.value.code == "python.lock"


def _asked(lock: str = "uv.lock", ref: str = "main") -> PythonSource:
    source = read_source(
        PythonEnvironment("3.12", lock=lock),
        Path("/nowhere"),
        Repository("https://host/o/app", ref),
    )
    assert source is not None
    return source


def _read(home: Path, source: PythonSource, files: dict[str, bytes]) -> PythonSource:
    """Read the lock of a clone that holds these files."""
    for name, data in files.items():
        place = home / "sky_workdir" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    live = LiveCluster("run", "dev", None, None, [shell_node(home)])  # type: ignore[arg-type]
    return asyncio.run(read_there(live, source, "sky_workdir"))


@pytest.mark.parametrize(
    ("lock", "place"),
    [("uv.lock", "."), ("sub\\a 'dir/uv.lock", "sub/a 'dir"), (".", "."), ("$(id)", "$(id)")],
)
def test_the_lock_of_a_git_workdir_is_read_where_it_was_cloned(
    tmp_path: Path, lock: str, place: str
) -> None:
    files = {
        f"{place}/uv.lock": LOCK.encode(),
        f"{place}/pyproject.toml": PROJECT.encode(),
        f"{place}/.python-version": b"3.12\n",
    }
    found = _read(tmp_path, _asked(lock), files)
    assert found.files == {"uv.lock": LOCK, "pyproject.toml": PROJECT, ".python-version": "3.12\n"}
    assert found.request()["files"] == found.files
    assert found.wish == _asked(lock).wish


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "python.missing"),
        ({"uv.lock": LOCK.encode()}, "python.missing"),
        ({"uv.lock": b"#" * 5001, "pyproject.toml": PROJECT.encode()}, "python.missing"),
        (
            {
                "uv.lock": LOCK.encode(),
                "pyproject.toml": PROJECT.replace("six (>", "seven (>").encode(),
            },
            "python.stale-lock",
        ),
        (
            {
                "uv.lock": LOCK.replace('"near", url', '"\\u001b[2J", url').encode(),
                "pyproject.toml": PROJECT.encode(),
            },
            "python.stale-lock",
        ),
        ({"uv.lock": b"\x1b[2J", "pyproject.toml": PROJECT.encode()}, "python.lock"),
        ({"uv.lock": b"\xff", "pyproject.toml": PROJECT.encode()}, "python.files"),
    ],
)
def test_what_the_clone_lacks_is_named_and_harms_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], code: str
) -> None:
    monkeypatch.setattr(cloned_lock, "MOST_BYTES", 5000)
    with pytest.raises(PythonFilesError, match="~/sky_workdir/") as caught:
        _read(tmp_path, _asked(), files)
    assert caught.value.code == code
    assert ("%nbprov setup dev" in caught.value.hint) == (code == "python.stale-lock")
    assert "\x1b" not in caught.value.message


def test_a_lock_outside_of_the_clone_is_refused_and_one_with_a_whole_path_is_of_this_computer(
    tmp_path: Path,
) -> None:
    with pytest.raises(PythonFilesError) as caught:
        _asked("../uv.lock")
    assert caught.value.code == "python.outside"
    (tmp_path / "uv.lock").write_text(LOCK)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    found = read_source(
        PythonEnvironment(lock=str(tmp_path)), Path("/nowhere"), Repository("https://host/o/app")
    )
    assert found is not None
    assert found.files["uv.lock"] == LOCK


class Jobs:
    """A ledger with one environment that was made."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.jobs = self

    def of_run(self, run_id: str) -> list[dict[str, object]]:
        return [{"kind": "python", "command": self.command, "exit_code": 0}]


def test_the_same_wish_is_known_again_without_asking_the_machine(tmp_path: Path) -> None:
    ledger: Any = Jobs(
        _read(
            tmp_path, _asked(), {"uv.lock": LOCK.encode(), "pyproject.toml": PROJECT.encode()}
        ).noted
    )
    assert not python_differs(ledger, "run", _asked())
    for other in (_asked(ref="next"), _asked("sub"), PythonSource("requirements")):
        assert python_differs(ledger, "run", other)
