"""The ssh command and config file really log in, pin keys, and no name adds a line to them."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tunnel_world import Served, TunnelWorld, until

from nbprov.machines.ssh_config import (
    SshConfig,
    SshConfigError,
    SshFileUnwritable,
    alias,
    command_line,
    options_for,
    ssh_arguments,
    write_known_hosts,
)
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NotFound, UsageError
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place
from nbprov.provisioning.engine import Engine
from nbprov.remote.ssh.keys import ClusterKeys

SSH = shutil.which("ssh") or "ssh"
machine = pytest.mark.machine


def _ssh(words: Sequence[str], *, shell: bool = False) -> subprocess.CompletedProcess[str]:
    command = words[0] if shell else list(words)
    return subprocess.run(
        command,
        shell=shell,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _settings(config: Path, host: str) -> dict[str, str]:
    """Return the options that ssh uses for a host."""
    lines = _ssh([SSH, "-F", str(config), "-G", host]).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


@machine
def test_the_printed_command_logs_in(shared: Served) -> None:
    command = shared.cluster.ssh_command()
    done = _ssh([f"{command} 'echo in on node $NBPROV_NODE'"], shell=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "in on node 0\n", "")
    assert _ssh([f"{command} true"], shell=True).returncode == 0
    for word in (
        "-F none",
        "IdentitiesOnly=yes",
        "IdentityFile=/",
        "ForwardAgent=no",
        "StrictHostKeyChecking=yes",
        "-p ",
    ):
        assert word in command


@machine
def test_the_command_trusts_the_clusters_own_host_key_alone(shared: Served, tmp_path: Path) -> None:
    words = ssh_arguments(shared.world.session.engine, "dev")
    other = ClusterKeys.create(tmp_path / "other")
    known = shared.world.home / "keys" / shared.cluster.cluster_id / "known_hosts"
    text = known.read_text()
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    known.write_text(text.replace(text.split()[2], other.host_public.split()[1]))
    done = _ssh([*words, "true"])
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr
    # It is right again once it is asked for.
    assert _ssh([*ssh_arguments(shared.world.session.engine, "dev"), "true"]).returncode == 0


@machine
def test_the_file_works_with_ssh_and_as_an_include(shared: Served, tmp_path: Path) -> None:
    path = shared.world.session.write_ssh_config()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    done = _ssh([SSH, "-F", str(path), "nbprov-dev", "echo $NBPROV_NODE"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    mine = tmp_path / "config"
    mine.write_text(
        f"{shared.world.session.services.ssh.file.include}\n\n"
        "Host *\n    ForwardAgent yes\n    User somebody\n    StrictHostKeyChecking no\n"
    )
    mine.chmod(0o600)
    assert _ssh([SSH, "-F", str(mine), "nbprov-dev", "true"]).returncode == 0
    settings = _settings(mine, "nbprov-dev")
    asked = {
        "forwardagent": "no",
        "stricthostkeychecking": "true",
        "identitiesonly": "yes",
        "updatehostkeys": "false",
    }
    assert {name: settings[name] for name in asked} == asked
    assert settings["user"] != "somebody"
    assert _settings(mine, "elsewhere.example")["user"] == "somebody"


@machine
def test_keys_in_a_folder_with_an_odd_name_log_in(shared: Served, tmp_path: Path) -> None:
    folder = tmp_path / "it's 100% $HOME #1"
    shutil.copytree(shared.world.home / "keys" / shared.cluster.cluster_id, folder)
    keys = ClusterKeys.load(folder)
    write_known_hosts(keys)
    options = options_for(shared.cluster.view().instances[0], keys)
    words = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
    assert (
        _ssh([f"{command_line(['ssh', '-F', 'none', *words, 'x'])} true"], shell=True).returncode
        == 0
    )


@machine
def test_a_full_disk_keeps_nobody_from_logging_in_and_is_one_typed_error(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def full(path: object, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT and str(path).startswith(str(shared.world.home)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, flags, *args, **options)  # type: ignore[arg-type]

    keys = ClusterKeys.load(shared.world.home / "keys" / shared.cluster.cluster_id)
    monkeypatch.setattr(os, "open", full)
    assert _ssh([f"{shared.cluster.ssh_command()} true"], shell=True).returncode == 0
    with pytest.raises(SshFileUnwritable, match=r"config, .* cannot be written: No space left"):
        shared.world.session.write_ssh_config()
    keys.known_hosts_file.unlink()  # as an earlier release left it
    with pytest.raises(SshFileUnwritable, match=r"known_hosts, .* cannot be written"):
        shared.cluster.ssh_command()
    monkeypatch.undo()
    write_known_hosts(keys)


@machine
def test_a_node_that_is_not_there_and_a_cluster_that_is_not(shared: Served) -> None:
    with pytest.raises(UsageError, match="no node 3"):
        shared.cluster.ssh_command(3)
    with pytest.raises(NotFound):
        ssh_arguments(shared.world.session.engine, "nobody")


@machine
def test_the_file_follows_what_becomes_of_the_clusters(world: TunnelWorld) -> None:
    dev = world.up()
    file = world.session.services.ssh.file
    assert not file.path.exists(), "nobody asked for it"
    world.session.write_ssh_config()
    before = file.path.read_text()
    world.up("two")
    until(lambda: "Host nbprov-two\n" in file.path.read_text(), "the second cluster")
    dev.stop().wait(120)
    until(lambda: "# nbprov-dev is stopped\n" in file.path.read_text(), "the stop")
    assert "Host nbprov-dev\n" not in file.path.read_text()
    with pytest.raises(NotFound, match="dev is stopped"):
        dev.ssh_command()
    dev.start().wait(120)
    until(lambda: "Host nbprov-dev\n" in file.path.read_text(), "the start")
    assert file.path.read_text() != before, "its address is another one"
    assert _ssh([SSH, "-F", str(file.path), "nbprov-dev", "true"]).returncode == 0
    assert _ssh([f"{dev.ssh_command()} true"], shell=True).returncode == 0
    dev.down().wait(120)
    until(lambda: "nbprov-dev" not in file.path.read_text(), "the end")
    assert [p.name for p in file.path.parent.iterdir()] == ["config"]


def _instance(**changes: object) -> Instance:
    made = Instance(
        "local",
        "i",
        "t",
        "o",
        Place("local", "here"),
        "small",
        InstanceState.RUNNING,
        host="192.0.2.7",
        port=22,
        user="root",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "-oProxyCommand=touch x"},
        {"host": "a b"},
        {"host": "192.0.2.7\n    ProxyCommand touch x"},
        {"host": "%h"},
        {"host": "a@b"},
        {"user": "root\nLocalCommand touch x"},
        {"user": "-l"},
        {"user": "a b"},
        {"port": 0},
        {"port": 70000},
    ],
)
def test_an_address_that_would_mean_something_else_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    keys = ClusterKeys.create(tmp_path / "keys")
    with pytest.raises(SshConfigError):
        options_for(_instance(**changes), keys)


@pytest.mark.parametrize("name", ["with space", "per%cent", "it's", "ümlaut", "$HOME", "a;b", "#c"])
def test_folders_with_odd_names_are_quoted(tmp_path: Path, name: str) -> None:
    keys = ClusterKeys.create(tmp_path / name / "keys")
    config = tmp_path / "config"
    config.write_text(
        "Host x\n" + "".join(f"  {k} {v}\n" for k, v in options_for(_instance(), keys).items()),
        encoding="utf-8",
    )
    settings = _settings(config, "x")
    # -G prints values as they are written, before %% becomes %.
    assert settings["identityfile"].replace("%%", "%") == str(keys.client_private_file)
    assert settings["userknownhostsfile"].replace("%%", "%") == str(keys.folder / "known_hosts")


@pytest.mark.parametrize("name", ['quo"te', "a*b", "a\nb", "${HOME}", "a[b]"])
def test_folders_that_no_config_can_name_are_refused(tmp_path: Path, name: str) -> None:
    keys = ClusterKeys.create(tmp_path / name / "keys")
    with pytest.raises(SshConfigError, match="cannot stand in an ssh config"):
        options_for(_instance(), keys)


@given(st.text(max_size=200), st.integers(min_value=0, max_value=20))
def test_no_name_becomes_more_than_one_plain_word(name: str, node: int) -> None:
    made = alias(name, node)
    assert made.isascii()
    assert not set(made) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert made.startswith(f"node{node}.nbprov-" if node else "nbprov-")
    assert len(made) < 130


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_names_are_two_hosts(one: str, two: str) -> None:
    assert (alias(one) == alias(two)) == (one == two)


def test_a_name_in_the_ledger_that_is_none_gets_no_line_of_its_own(
    nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "x\nHost *\n    ProxyCommand touch pwned"
    engine = Engine(nbprov_home)
    try:
        keys = ClusterKeys.create(nbprov_home / "keys" / "r1")
        assert keys
        row = type(
            "Row",
            (),
            {"name": hostile, "run_id": "r1", "token": "t", "state": ClusterState.RUNNING},
        )()
        stopped = type(
            "Row",
            (),
            {"name": hostile, "run_id": "r2", "token": "u", "state": ClusterState.STOPPED},
        )()
        monkeypatch.setattr(engine.ledger.clusters, "latest", lambda **_: [row, stopped])
        monkeypatch.setattr(
            engine.ledger.instances,
            "of_launch",
            lambda token: [_instance()] if token == "t" else [],
        )
        file = SshConfig(engine)
        file.write()
        lines = file.path.read_text().splitlines()
        hosts = [line for line in lines if line.startswith("Host ")]
        assert hosts == [f"Host {alias(hostile)}"]
        assert not [line for line in lines if line.strip().startswith("ProxyCommand")]
        assert _settings(file.path, "elsewhere").get("proxycommand") is None
    finally:
        engine.shut_down()
