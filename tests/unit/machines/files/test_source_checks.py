"""Local paths of a spec are checked before anything is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbprov.machines.files.source_checks import check_sources
from nbprov.model.sources import Mount, Repository
from nbprov.model.spec import Spec
from nbprov.remote.sync.errors import SyncError


def code_of(spec: Spec, folder: Path) -> str:
    try:
        check_sources(spec, folder)
    except SyncError as error:
        return error.code
    return ""


def test_what_is_there_passes_and_what_is_elsewhere_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "one.txt").write_text("1")
    mounts = (
        Mount("/a", "data"),
        Mount("/b", "./one.txt"),
        Mount("/c", "s3://bucket/x"),
        Mount("/d", "https://host/x"),
    )
    assert code_of(Spec(workdir=".", file_mounts=mounts), tmp_path) == ""
    assert code_of(Spec(workdir=Repository("https://host/code.git")), tmp_path / "nowhere") == ""


@pytest.mark.parametrize(
    "spec", [Spec(workdir="./nosuch"), Spec(file_mounts=(Mount("/a", "nosuch"),))]
)
def test_what_is_not_there_is_missing(spec: Spec, tmp_path: Path) -> None:
    assert code_of(spec, tmp_path) == "sync.missing"


def test_a_whole_home_is_refused_however_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for source in ("~", "..", "../..", "link", str(home)):
        assert code_of(Spec(workdir=source), home / "work") == "sync.home", source
        assert code_of(Spec(file_mounts=(Mount("~", source),)), home / "work") == "sync.home", (
            source
        )
    assert code_of(Spec(workdir="."), home / "work") == ""
