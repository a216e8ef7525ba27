"""Programs that reach a machine by its name in our config file.

These are ssh, scp, sftp, a jump host, and editors.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tunnel_world import Served, get, quiet_port, until

PROGRAMS = ("ssh", "scp", "sftp")
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)), reason="needs OpenSSH's client programs"
    ),
]

SECONDS = 60


@pytest.fixture(scope="module")
def config(shared: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's own config, which includes ours and asks of every host what ours must not get."""
    shared.world.session.write_ssh_config()
    mine = tmp_path_factory.mktemp("ssh") / "config"
    mine.write_text(
        f"{shared.world.session.services.ssh.file.include}\n\n"
        "Host *\n    User somebody\n    Port 9\n    ForwardAgent yes\n"
        "    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n"
    )
    mine.chmod(0o600)
    return mine


def _run(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        input=text,
        check=False,
    )


def _ok(*words: str | Path, text: str = "") -> str:
    done = _run(*words, text=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_scp_and_sftp_bring_files_there_and_back(config: Path, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a file").write_bytes(content)
    _ok("scp", "-q", "-r", "-F", config, tmp_path / "there", "nbprov-dev:scp")
    assert _ok("ssh", "-F", config, "nbprov-dev", "wc -c <'scp/a file'").strip() == str(
        len(content)
    )
    _ok("scp", "-q", "-F", config, "nbprov-dev:scp/a file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    _run(
        "sftp",
        "-q",
        "-b",
        "-",
        "-F",
        config,
        "nbprov-dev",
        text=f"get 'scp/a file' {tmp_path / 'again'}\n",
    )
    assert (tmp_path / "again").read_bytes() == content


def test_a_machine_is_a_jump_host(shared: Served, config: Path) -> None:
    # ProxyJump runs `ssh -W` to the next host, which here is the machine itself.
    address = shared.cluster.view().instances[0]
    behind = config.with_name("behind")
    behind.write_text(
        f"{shared.world.session.services.ssh.file.include}\n\n"
        f"Host behind\n    HostName {address.host}\n    Port {address.port}\n"
        f"    ProxyJump nbprov-dev\n{_of_the_host(shared, 'dev')}"
    )
    behind.chmod(0o600)
    assert _ok("ssh", "-F", behind, "behind", "echo node $NBPROV_NODE") == "node 0\n"
    # A plain -W reaches what listens on the machine's own loopback.
    page = _ok(
        "ssh",
        "-F",
        config,
        "-W",
        f"127.0.0.1:{shared.port}",
        "nbprov-dev",
        text="GET / HTTP/1.0\r\n\r\n",
    )
    assert page.endswith("page of dev")


def _of_the_host(shared: Served, name: str) -> str:
    """Return the options of a host in our file that decide who logs in and which key is trusted."""
    text = (
        shared.world.session.services.ssh.file.path.read_text()
        .partition(f"Host nbprov-{name}\n")[2]
        .partition("\nHost ")[0]
    )
    kept = (
        "User ",
        "Identit",
        "HostKey",
        "UserKnownHosts",
        "GlobalKnownHosts",
        "StrictHost",
        "UpdateHost",
    )
    return "".join(f"{line}\n" for line in text.splitlines() if line.strip().startswith(kept))


def test_an_editor_comes_in_by_a_shell_on_standard_input_and_a_socks_proxy(
    shared: Served, config: Path
) -> None:
    # VS Code's Remote - SSH runs `ssh -T -D PORT HOST` with its installer as the shell's input,
    # then reaches its server through the proxy.
    port = quiet_port()
    with _editor(config, port) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write("echo in on $NBPROV_NODE, $(cd && pwd -P)\n")
        shell.stdin.flush()
        assert shell.stdout.readline().startswith("in on 0, /")
        answer = b""
        with socket.create_connection(("127.0.0.1", port), SECONDS) as proxy:
            proxy.sendall(b"\x05\x01\x00")
            assert proxy.recv(2) == b"\x05\x00"
            proxy.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + shared.port.to_bytes(2, "big"))
            assert proxy.recv(10)[:2] == b"\x05\x00"
            proxy.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while piece := proxy.recv(4096):
                answer += piece
        assert answer.endswith(b"page of dev")


@contextlib.contextmanager
def _editor(config: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    words = [
        "ssh",
        "-T",
        "-D",
        f"127.0.0.1:{port}",
        "-o",
        "ExitOnForwardFailure=yes",
        "-F",
        str(config),
        "nbprov-dev",
        "sh",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        try:
            yield shell
        finally:
            shell.kill()


def test_a_forwarded_port_reaches_a_server_there(shared: Served, config: Path) -> None:
    port = quiet_port()
    words = [
        "ssh",
        "-N",
        "-L",
        f"127.0.0.1:{port}:127.0.0.1:{shared.port}",
        "-o",
        "ExitOnForwardFailure=yes",
        "-F",
        str(config),
        "nbprov-dev",
    ]
    with subprocess.Popen(words) as forwarding:
        try:
            until(lambda: _page(port) == "page of dev", "the page through ssh -L")
        finally:
            forwarding.kill()


def _page(port: int) -> str:
    try:
        return get(port)
    except OSError:
        return ""


def test_after_a_stop_and_start_the_name_leads_to_the_same_machine(
    shared: Served, config: Path
) -> None:
    _ok("ssh", "-F", config, "nbprov-dev", "echo mine >kept")
    before = _settings(config)
    file = shared.world.session.services.ssh.file.path
    shared.cluster.stop().wait(SECONDS)
    shared.cluster.start().wait(SECONDS)
    until(lambda: "\nHost nbprov-dev\n" in file.read_text(), "the name in the file")
    after = _settings(config)
    assert (before["hostname"], before["port"]) != (after["hostname"], after["port"]), (
        "this cloud gives new addresses"
    )
    assert before["hostkeyalias"] == after["hostkeyalias"]
    assert before["userknownhostsfile"] == after["userknownhostsfile"]
    assert _ok("ssh", "-F", config, "nbprov-dev", "cat kept") == "mine\n"


def _settings(config: Path) -> dict[str, str]:
    lines = _run("ssh", "-F", config, "-G", "nbprov-dev").stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)
