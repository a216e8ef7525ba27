"""`%nbprov tunnel` and `%nbprov ssh` in a shell."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testing_shell import TestingShell
from tunnel_world import Served, TunnelWorld, get, listens, quiet_port

from nbprov import api
from nbprov.machines.tunnels.tunnel import TunnelView
from nbprov.model.errors import NotFound, UsageError
from nbprov.notebook.commands.tunnel import _COLUMNS, TunnelTable, _rows
from nbprov.notebook.extension import load, unload

pytestmark = pytest.mark.machine


@pytest.fixture
def shell(
    shared: Served, nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestingShell]:
    monkeypatch.setattr(api, "_session", shared.world.session)
    made = TestingShell()
    load(made)
    yield made
    session = shared.world.session
    session.close_tunnels(session.tunnels())
    monkeypatch.setattr(api, "_session", None)
    unload(made)


def _value(shell: TestingShell, line: str) -> Any:
    return shell.run_cell(line).result


def test_a_tunnel_is_opened_listed_with_a_link_and_closed(
    shared: Served, shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    port = shared.port
    opened = _value(shell, f"%nbprov tunnel dev {port}")
    local = opened.data[0].local
    # The machine of the local cloud is this computer, so its own port is taken here.
    assert (
        opened.text().splitlines()[0]
        == f"http://127.0.0.1:{local} is port {port} of dev (the local port {port} is in use)"
    )
    assert get(local) == "page of dev"
    listed = _value(shell, "%nbprov tunnel")
    assert (
        f'<a href="http://127.0.0.1:{local}" target="_blank" rel="noopener'
        f' noreferrer">http://127.0.0.1:{local}</a>' in listed.html()
    )
    assert "1 tunnel, on the loopback of the computer where this kernel runs" in listed.text()
    assert f"http://127.0.0.1:{local}" in listed.text()
    assert "in total" in listed.text()
    assert [view.local for view in _value(shell, "%nbprov tunnel dev").data] == [local]
    assert _value(shell, f"%nbprov tunnel dev {port} --node 0").data[0].local == local
    capsys.readouterr()
    assert _value(shell, f"%nbprov tunnel dev {port} --close") is None
    assert capsys.readouterr().out == f"closed: http://127.0.0.1:{local} is port {port} of dev\n"
    assert not listens(local)
    shell.run_cell("%nbprov tunnel")
    shell.run_cell("%nbprov tunnel dev")
    shell.run_cell("%nbprov tunnel --close")
    assert capsys.readouterr().out.splitlines() == [
        "no tunnel is open: %nbprov tunnel NAME PORT opens one",
        "no tunnel is open to dev: %nbprov tunnel dev PORT opens one",
        "no such tunnel is open",
    ]


def test_the_local_port_may_be_named(shared: Served, shell: TestingShell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        local = taken.getsockname()[1]
        with pytest.raises(Exception, match="cannot be used"):
            shell.run_cell(f"%nbprov tunnel dev {shared.port} --local {local}")
    opened = _value(shell, f"%nbprov tunnel dev {shared.port} --local {local}")
    assert opened.text().splitlines()[0] == f"http://127.0.0.1:{local} is port {shared.port} of dev"
    assert get(local) == "page of dev"


def test_what_does_not_fit_is_said(shell: TestingShell) -> None:
    for line, words in {
        "tunnel dev eighty": "invalid int value",
        "tunnel dev 70000": "70000 is not a port",
        "tunnel dev 80 --node 4": "no node 4",
        "tunnel dev --local 80": "--local needs the machine's port too",
        "ssh": "name the cluster",
        "ssh dev --node 4": "no node 4",
    }.items():
        with pytest.raises(UsageError, match=words):
            shell.run_cell(f"%nbprov {line}")
    for line in ("tunnel nobody 80", "tunnel nobody", "tunnel nobody --close", "ssh nobody"):
        with pytest.raises(NotFound, match="nobody"):
            shell.run_cell(f"%nbprov {line}")


def test_remarks_are_in_the_table_and_what_pauses_is_no_link() -> None:
    views = [
        TunnelView("dev", "c", 0, 80, 8080, paused="dev is stopped"),
        TunnelView("<b>", "d", 1, 81, 81, trouble="nothing listens <there>"),
    ]
    page = TunnelTable("two", _COLUMNS, _rows(views), (), views).html()
    assert "dev is stopped" in page
    assert "nothing listens &lt;there&gt;" in page
    assert "<b><" not in page
    assert 'href="http://127.0.0.1:8080"' not in page
    assert 'href="http://127.0.0.1:81"' in page


def test_the_printed_ssh_command_logs_in(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%nbprov ssh dev")
    command = capsys.readouterr().out.strip()
    done = subprocess.run(
        f"{command} true",
        shell=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_config_is_written_and_the_line_to_include_it_is_printed(
    shared: Served,
    shell: TestingShell,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shell.run_cell("%nbprov ssh --config")
    said = capsys.readouterr().out.splitlines()
    assert "nbprov-dev" in said[0]
    include = said[2].strip()
    assert include == f"Include {shared.world.home / 'ssh' / 'config'}"
    assert list(tmp_path.iterdir()) == [], "nothing of the user's own is touched"
    mine = tmp_path / "config"
    mine.write_text(include + "\n")
    mine.chmod(0o600)
    ssh = shutil.which("ssh") or "ssh"
    done = subprocess.run(
        [ssh, "-F", str(mine), "nbprov-dev", "true"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_unloading_closes_them(world: TunnelWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_session", world.session)
    shell = TestingShell()
    load(shell)
    world.up()
    local = _value(shell, f"%nbprov tunnel dev {quiet_port()}").data[0].local
    assert listens(local)
    unload(shell)
    assert not listens(local)
