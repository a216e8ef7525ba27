"""A text that can be no path of this computer is a typed error, whatever names it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.machines.files.output_targets import OutputFolders, check_outputs
from nbprov.machines.files.source_checks import check_sources
from nbprov.machines.files.upload_notes import upload_notes
from nbprov.machines.local_paths import UnusablePath, local_path
from nbprov.machines.python.requirement_files import PythonFilesError, read_source
from nbprov.model.sources import Mount
from nbprov.model.spec import PythonEnvironment, Spec
from nbprov.remote.sync.errors import SyncError

ODD = ("~nosuchuser/code", "a\0b", "a\ud800b", "n" * 5000)
PLACES: dict[str, Callable[[str, Path], object]] = {
    "workdir": lambda text, at: check_sources(Spec(workdir=text), at),
    "file_mounts": lambda text, at: check_sources(Spec(file_mounts=(Mount("/d", text),)), at),
    "a note": lambda text, at: list(upload_notes(Spec(workdir=text), at)),
    "outputs": lambda text, at: check_outputs(
        Spec(outputs=(Mount(text, "/d"),)), OutputFolders.agreed(str(at), "", "dev")
    ),
    "--outputs-to": lambda text, at: OutputFolders.agreed(str(at), text, "dev"),
    "a lock": lambda text, at: read_source(PythonEnvironment(lock=text), at),
    "a file": lambda text, at: read_source(PythonEnvironment(file=text + ".txt"), at),
    "sync": lambda text, at: _sync(text),
}


def _sync(text: str) -> None:
    from nbprov.notebook.commands import sync

    names = {"push": True, "pull": False, "delete": False, "dry": False, "keep_names": False}
    sync.run(None, argparse.Namespace(path=text, name="dev", node=0, **names), None)


@pytest.mark.parametrize("text", ODD, ids=["home", "nul", "surrogate", "long"])
@pytest.mark.parametrize("place", PLACES)
def test_what_can_be_no_path_is_said_where_it_is_named(
    place: str, text: str, tmp_path: Path
) -> None:
    with pytest.raises(UnusablePath) as caught:
        PLACES[place](text, tmp_path)
    error = caught.value
    assert error.code == "path.unusable"
    assert error.hint
    assert len(error.message) < 250
    field = place if place in ("workdir", "file_mounts", "outputs", "--outputs-to") else ""
    assert error.message.startswith(field)


def test_a_path_need_not_be_there(tmp_path: Path) -> None:
    assert local_path("no/such", tmp_path, "workdir") == tmp_path / "no/such"
    assert local_path("~/x", tmp_path, "workdir") == Path.home() / "x"


def test_a_file_that_requirements_include_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r a\0b.txt\n")
    with pytest.raises(UnusablePath, match=r"python: .* no path can hold"):
        read_source(PythonEnvironment(file="requirements.txt"), tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_circle_of_links_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("a.txt")
    with pytest.raises(PythonFilesError, match=r"a\.txt cannot be read"):
        read_source(PythonEnvironment(file="a.txt"), tmp_path)


def test_a_folder_that_may_not_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, **_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refused)
    with pytest.raises(SyncError, match=r"workdir: .*x cannot be read: Perm") as caught:
        check_sources(Spec(workdir="x"), tmp_path)
    assert caught.value.code == "sync.permission"
