"""`%nbprov new-cloud` in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testing_shell import TestingShell

from nbprov import api
from nbprov.clouds.scaffold import FILES, ScaffoldError
from nbprov.model.errors import UsageError
from nbprov.notebook.commands.new_cloud import GUIDE
from nbprov.notebook.extension import load, unload

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def shell(nbprov_home: Path) -> Iterator[TestingShell]:
    made = TestingShell()
    load(made)
    yield made
    unload(made)
    api.close()


def test_the_package_is_written_and_the_next_step_is_named(
    shell: TestingShell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shell.run_cell("%nbprov new-cloud acme")
    written = [path for path in (tmp_path / "acme").rglob("*") if path.is_file()]
    assert len(written) == len(FILES)
    assert 'acme = "acme:make"' in (tmp_path / "acme" / "pyproject.toml").read_text(
        encoding="utf-8"
    )
    said = capsys.readouterr().out
    assert f"{len(FILES)} files" in said
    assert str(Path("acme") / "README.md") in said
    assert GUIDE in said
    assert (ROOT / GUIDE).is_file()
    assert api.current() is None, "no session is opened for it"


def test_into_names_the_folder(
    shell: TestingShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    shell.run_cell("%nbprov new-cloud acme --into ~/clouds")
    assert (tmp_path / "clouds" / "acme" / "README.md").is_file()


def test_nothing_is_overwritten_and_the_cell_fails(shell: TestingShell, tmp_path: Path) -> None:
    line = f'%nbprov new-cloud acme --into "{tmp_path}"'
    shell.run_cell(line)
    mine = tmp_path / "acme" / "README.md"
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(ScaffoldError) as raised:
        shell.run_cell(line)
    assert raised.value.code == "scaffold.exists"
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["Acme", "aws", "json"])
def test_a_name_that_cannot_be_one_writes_nothing(
    shell: TestingShell, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ScaffoldError):
        shell.run_cell(f'%nbprov new-cloud {name} --into "{tmp_path / "new"}"')
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_said_in_a_sentence(
    shell: TestingShell, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="nothing was written") as raised:
        shell.run_cell(f'%nbprov new-cloud acme --into "{tmp_path / "file"}"')
    assert raised.value.code == "scaffold.folder"


def test_without_a_name_the_usage_is_told(shell: TestingShell) -> None:
    with pytest.raises(UsageError, match="name"):
        shell.run_cell("%nbprov new-cloud")


def test_it_stands_in_the_overview(shell: TestingShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%nbprov")
    assert "new-cloud" in capsys.readouterr().out
