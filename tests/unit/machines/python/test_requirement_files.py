"""The files that `python` names are read whole, or an error names the path before a launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbprov.machines.python.requirement_files import (
    MOST_BYTES,
    PythonFilesError,
    PythonSource,
    read_source,
)
from nbprov.model.spec import PythonEnvironment


def _read(folder: Path, **fields: Any) -> PythonSource:
    source = read_source(PythonEnvironment(**fields), folder)
    assert source is not None
    return source


def test_nothing_asked_is_nothing() -> None:
    assert read_source(None, Path()) is None


def test_a_list_becomes_a_file_of_requirements(tmp_path: Path) -> None:
    source = read_source(PythonEnvironment("3.12", ("six", "tomli>=2")), tmp_path)
    assert source == PythonSource(
        "requirements", "3.12", {"requirements.in": "six\ntomli>=2\n"}, "3.12 with six, tomli>=2"
    )


def test_included_files_travel_too_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "deps").mkdir()
    (tmp_path / "requirements.txt").write_text(
        "-r deps/base.txt\n-c deps/limits.txt  # a remark\nsix\n"
    )
    (tmp_path / "deps" / "base.txt").write_text("--requirement ../requirements.txt\ntomli\n")
    (tmp_path / "deps" / "limits.txt").write_text("six<2\n")
    files = _read(tmp_path, file="requirements.txt").files
    assert files == {
        "requirements.in": "-r included-1.txt\n-c included-2.txt\nsix\n",
        "included-1.txt": "--requirement requirements.in\ntomli\n",
        "included-2.txt": "six<2\n",
    }


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "--editable=./x",
        "./wheels/x.whl",
        "../x",
        "/opt/x.whl",
        "~/x",
        "x @ file:///x.whl",
        "--find-links ./wheels",
        "file:x",
    ],
)
def test_what_only_this_computer_has_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.txt").write_text(f"six\n{line}\n")
    with pytest.raises(PythonFilesError, match=r"line 2: .* is of this computer") as caught:
        _read(tmp_path, file="r.txt")
    assert caught.value.code == "python.local-path"


@pytest.mark.parametrize(
    "line",
    [
        "six # ./not a path",
        "--index-url https://host/simple",
        "x @ https://host/x.whl",
        "six --hash=sha256:ab",
        "    --hash=sha256:cd",
    ],
)
def test_what_any_machine_can_have_is_left_as_it_is(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.txt").write_text(line)
    assert _read(tmp_path, file="r.txt").files["requirements.in"] == line + "\n"


def test_a_missing_file_is_named_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(PythonFilesError, match=r"nope\.txt") as caught:
        _read(tmp_path, file="nope.txt")
    assert caught.value.code == "python.missing"
    (tmp_path / "r.txt").write_text("-r gone.txt\n")
    with pytest.raises(PythonFilesError, match=r"gone\.txt"):
        _read(tmp_path, file="r.txt")


def test_a_lock_comes_with_its_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(PythonFilesError, match=r"uv\.lock") as caught:
        _read(tmp_path, lock=".")
    assert caught.value.hint == "uv lock makes it"
    (tmp_path / "uv.lock").write_text("version = 1\n")
    (tmp_path / ".python-version").write_text("3.12\n")
    expected = {
        "uv.lock": "version = 1\n",
        "pyproject.toml": "[project]\n",
        ".python-version": "3.12\n",
    }
    assert _read(tmp_path, lock=".").files == _read(tmp_path, lock="uv.lock").files == expected
    assert _read(tmp_path, lock=".").kind == "project"


def test_what_is_no_list_of_requirements_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PythonFilesError, match="UTF-8"):
        _read(tmp_path, file="r.txt")
    (tmp_path / "r.txt").write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(PythonFilesError, match="larger than"):
        _read(tmp_path, file="r.txt")


def test_the_key_follows_the_content_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("six\n")
    (tmp_path / "other.txt").write_text("six\n")
    first = _read(tmp_path, file="r.txt").key
    assert _read(tmp_path, file="other.txt").key == first
    assert read_source(PythonEnvironment(requirements=("six",)), tmp_path).key == first  # type: ignore[union-attr]
    assert _read(tmp_path, file="r.txt", version="3.12").key != first
    (tmp_path / "r.txt").write_text("six==1.16.0\n")
    assert _read(tmp_path, file="r.txt").key != first


def test_contents_are_not_in_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("--index-url https://me:canary@host/simple\n")
    assert "canary" not in repr(_read(tmp_path, file="r.txt"))


def test_what_lies_elsewhere_is_no_list_of_packages_and_stays_here(tmp_path: Path) -> None:
    inside = tmp_path / "repo"
    inside.mkdir()
    (tmp_path / "credentials").write_text("aws_secret_access_key = x")
    (tmp_path / "base.txt").write_text("six")
    (inside / "requirements.txt").write_text("-r ../base.txt")
    asked = PythonEnvironment(file="requirements.txt")
    found = read_source(asked, inside)
    assert found is not None
    assert "six" in "".join(found.files.values())
    (inside / "linked.txt").symlink_to(tmp_path / "credentials")
    for line in ("-r ../credentials", "-c ../credentials", "-r linked.txt"):
        (inside / "requirements.txt").write_text(line)
        with pytest.raises(PythonFilesError, match="not sent") as caught:
            read_source(asked, inside)
        assert caught.value.code == "python.outside"
