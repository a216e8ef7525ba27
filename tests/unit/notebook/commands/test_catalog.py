"""`%nbprov catalog` in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import price_mirror as doubles
import price_world as world
import pytest
from testing_shell import TestingShell
from traitlets import TraitError

from nbprov import api
from nbprov.model.errors import UsageError
from nbprov.notebook.commands.registry import parser_of
from nbprov.notebook.extension import load, unload


@pytest.fixture
def shell(nbprov_home: Path) -> Iterator[TestingShell]:
    """Yield a shell with the extension and its own home."""
    made = TestingShell()
    load(made)
    yield made
    unload(made)
    api.close()


@pytest.fixture
def mirror(nbprov_home: Path) -> Iterator[doubles.Mirror]:
    """Start the mirror from which the home downloads."""
    with doubles.mirror() as made:
        world.settings(nbprov_home, made.address)
        made.host("lambda", world.v8_text())
        yield made


def _run(shell: TestingShell, line: str) -> Any:
    return shell.run_line_magic("nbprov", f"catalog {line}")


def test_status_names_every_cloud_with_both_forms(
    shell: TestingShell, mirror: doubles.Mirror
) -> None:
    sheet = _run(shell, "")
    bundle = sheet._repr_mimebundle_()
    for words in ("lambda", "shipped", "every 7 h", "never", "on demand"):
        assert words in bundle["text/plain"]
        assert words in bundle["text/html"]
    assert {status.cloud for status in sheet} >= {"aws", "gcp", "lambda"}


def test_refresh_prints_a_line_a_cloud_and_returns_a_table(
    shell: TestingShell, mirror: doubles.Mirror, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = _run(shell, "refresh lambda nebius --force")
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("lambda") and "● updated" in line for line in lines)
    assert any(line.startswith("nebius") and "✕ failed" in line for line in lines)
    assert sheet["lambda"].rows == 20
    assert list(sheet.to_frame()["cloud"]) == ["lambda", "nebius"]
    assert "prices: 1 updated, 1 failed" in sheet.text()


def test_edits_show_in_the_result_and_in_the_status(
    shell: TestingShell,
    mirror: doubles.Mirror,
    nbprov_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(shell, "refresh lambda --force")
    path = nbprov_home / "catalogs" / "lambda" / "vms.csv"
    path.write_text(path.read_text().replace("0.7500", "0.5000"))
    assert "edited by hand" in _run(shell, "refresh lambda").text()
    status = _run(shell, "").text()
    assert "hosted, edited" in status
    assert "%nbprov catalog restore lambda undoes the edits" in status
    capsys.readouterr()
    assert _run(shell, "restore") is None
    assert capsys.readouterr().out == "lambda: as the last refresh wrote them\n"
    _run(shell, "restore")
    assert "nothing to restore" in capsys.readouterr().out


def test_overrides_and_errors_show_in_the_status(
    shell: TestingShell, mirror: doubles.Mirror, nbprov_home: Path
) -> None:
    folder = nbprov_home / "overrides"
    folder.mkdir(parents=True)
    (folder / "lambda.csv").write_text("InstanceType,Price\ngpu_1x_a10,0.1\n")
    _run(shell, "refresh nebius")
    text = _run(shell, "").text()
    assert "lambda: override" in text
    assert "nebius: last refresh failed" in text


def test_diff_shows_the_largest_and_has_all(shell: TestingShell, mirror: doubles.Mirror) -> None:
    _run(shell, "refresh lambda --force")
    mirror.host("lambda", world.v8_text(factor=1.25))
    _run(shell, "refresh lambda")
    sheet = _run(shell, "diff lambda --rows 3")
    text = sheet.text()
    assert "changes of lambda by the last refresh: 20 up" in text
    assert "+25.0" in text
    assert "17 more rows" in text
    assert len(sheet) == len(sheet.to_frame()) == 20
    assert "new" in _run(shell, "diff lambda --shipped").text()


def test_offline_is_one_quiet_line(
    shell: TestingShell,
    nbprov_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from nbprov.clouds.web import client

    monkeypatch.setattr(client, "TRIES", 1)
    world.settings(nbprov_home, "http://127.0.0.1:9/{cloud}/vms.csv")
    sheet = _run(shell, "refresh lambda vast")
    assert capsys.readouterr().out == ""
    assert sheet.text() == "offline: no price source could be reached; the prices in place stay"


def test_path(
    shell: TestingShell,
    mirror: doubles.Mirror,
    nbprov_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(shell, "path")
    assert capsys.readouterr().out.strip() == str(nbprov_home / "catalogs")
    with pytest.raises(UsageError, match="one cloud"):
        _run(shell, "path lambda vast")


def test_slips_are_named(shell: TestingShell, mirror: doubles.Mirror) -> None:
    with pytest.raises(UsageError, match="did you mean lambda"):
        _run(shell, "refresh lamda")
    with pytest.raises(UsageError, match="invalid choice"):
        _run(shell, "renew")
    assert "--source" in parser_of("catalog").format_help()


def test_policies_by_config(shell: TestingShell, mirror: doubles.Mirror) -> None:
    (magics,) = (made for made in shell.configurables if type(made).__name__ == "Nbprov")
    magics.catalog_refresh = {"lambda": "2h"}
    assert "every 2 h" in _run(shell, "").text()
    with pytest.raises(TraitError, match="soon"):
        magics.catalog_refresh = {"lambda": "soon"}
    assert magics.catalog_refresh == {"lambda": "2h"}


def test_completion_offers_actions_then_clouds(shell: TestingShell) -> None:
    def offered(line: str) -> set[str]:
        _, matches = shell.complete("", line, len(line))
        return set(matches)

    assert {"refresh", "diff", "restore", "path"} <= offered("%nbprov catalog ")
    assert {"lambda", "vast"} <= offered("%nbprov catalog refresh ")
    assert "--source" in offered("%nbprov catalog refresh --")
