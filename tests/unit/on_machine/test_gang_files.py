"""What machines of one cluster are given to reach each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place
from nbprov.on_machine import gang_files
from nbprov.remote.boot.gang_config import (
    CONFIG,
    KEY,
    MARK,
    GangAddressError,
    GangConfig,
    authorized_key,
    gang_secret,
    hosts,
    node_files,
    ssh_config,
)
from nbprov.remote.boot.node_environment import environment_variables
from nbprov.remote.ssh.keys import INNER_KEY, ClusterKeys, KeyMaterialError, inner_pair


def gang(*addresses: str, user: str = "ubuntu", private: bool = True) -> GangConfig:
    place = Place("aws", "us-east-1", "use1-az1")
    return GangConfig(
        "r1",
        tuple(
            Instance(
                "aws",
                f"i-{n}",
                "t",
                "o",
                place,
                "p5",
                InstanceState.RUNNING,
                f"54.0.0.{n}",
                22,
                a if private else "",
                user,
                n,
            )
            for n, a in enumerate(addresses)
        ),
        8,
    )


PAIR = gang("10.0.0.5", "10.0.0.6")


def test_a_node_is_let_in_from_the_clusters_private_addresses_alone(tmp_path: Path) -> None:
    _, public = inner_pair(ClusterKeys.create(tmp_path / "k").folder)
    line = authorized_key(PAIR, public)
    assert line.startswith(
        'from="10.0.0.5,10.0.0.6",no-agent-forwarding,no-X11-forwarding ssh-ed25519 AAAA'
    )
    assert line.endswith(f" {MARK}")
    assert authorized_key(gang("127.0.3.4", "127.0.5.6"), public).startswith(
        'from="127.0.0.0/8,::1",'
    )
    assert "from=" not in authorized_key(gang("", "", private=False), public)


def test_the_ssh_config_names_every_node_and_trusts_the_clusters_host_key_alone() -> None:
    text = ssh_config(PAIR)
    assert "Host node0 10.0.0.5\n" in text
    assert "Host node1 10.0.0.6\n    HostName 10.0.0.6\n    Port 22\n    User ubuntu\n" in text
    assert text.count("StrictHostKeyChecking yes") == text.count("ForwardAgent no") == 2


@pytest.mark.parametrize(
    "address",
    ["", "evil\n  ProxyCommand x", "10.0.0.5 *", "node.example", "fe80::1%x\n  ProxyCommand x"],
)
def test_an_address_that_is_none_gets_nowhere(address: str) -> None:
    odd = replace(
        PAIR,
        instances=(
            PAIR.instances[0],
            replace(PAIR.instances[1], private_host=address, host=address),
        ),
    )
    for act in (ssh_config, lambda g: g.agents, lambda g: hosts(g.addresses, 8)):
        with pytest.raises(GangAddressError):
            act(odd)


def test_a_user_that_would_be_a_line_of_its_own_is_left_out() -> None:
    assert "User" not in ssh_config(
        gang("10.0.0.5", "10.0.0.6", user="x\n  ProxyCommand y")
    ).replace("UserKnownHostsFile", "")


def test_agents_that_share_an_address_have_ports_of_their_own() -> None:
    shared = gang("127.0.0.1", "127.0.0.1", "127.0.0.2").agents
    assert len(set(shared)) == 3
    assert gang("10.0.0.5", "10.0.0.6").agents == [("10.0.0.5", 29500), ("10.0.0.6", 29500)]


def test_the_inner_key_is_the_clusters_own_and_stays(tmp_path: Path) -> None:
    keys = ClusterKeys.create(tmp_path / "k")
    found: list[tuple[str, str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(inner_pair(keys.folder))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1, "kernels that come at once go on with one key"
    assert found[0][1].split()[1] not in (
        keys.client_public.split()[1],
        keys.host_public.split()[1],
    )
    assert sorted(
        path.name for path in keys.folder.iterdir() if path.name.startswith(INNER_KEY)
    ) == [INNER_KEY]
    if os.name == "posix":
        assert (keys.folder / INNER_KEY).stat().st_mode & 0o777 == 0o600
    assert (
        gang_secret(keys)
        == gang_secret(ClusterKeys.load(keys.folder))
        != gang_secret(ClusterKeys.create(tmp_path / "other"))
    )
    (keys.folder / INNER_KEY).write_text("torn")
    with pytest.raises(KeyMaterialError):
        inner_pair(keys.folder)


@pytest.mark.skipif(os.name != "posix", reason="runs on the machine, which is never Windows")
def test_a_machine_puts_its_files_in_place_and_leaves_what_is_not_ours(tmp_path: Path) -> None:
    keys, home = ClusterKeys.create(tmp_path / "k"), tmp_path / "a 100% home"
    (home / ".ssh").mkdir(parents=True)
    logins, config = home / ".ssh" / "authorized_keys", home / ".ssh" / "config"
    logins.write_text("ssh-ed25519 AAAAmine me@home")
    config.write_text("Host mine\n    Port 2222\n")
    env = {k: v for k, v in os.environ.items() if k != "NBPROV_AUTHORIZED_KEYS"} | {
        "HOME": str(home)
    }
    for told in (PAIR, gang("10.0.0.7", "10.0.0.8")):
        done = subprocess.run(
            [sys.executable, gang_files.__file__],
            input=node_files(told, keys),
            env=env,
            capture_output=True,
            check=True,
        )
    assert done.stdout.decode() == f"{home}/.nbprov\n"
    lines = logins.read_text().splitlines()
    assert lines[0] == "ssh-ed25519 AAAAmine me@home"
    assert [line.split(",")[0] for line in lines[1:]] == ['from="10.0.0.7']
    assert (
        config.read_text()
        == f'Include "{home}/.nbprov/gang/ssh_config"\nHost mine\n    Port 2222\n'
    )
    folder = home / ".nbprov"
    assert (folder / "hosts").read_text() == "10.0.0.7 slots=8\n10.0.0.8 slots=8\n"
    assert (
        f'IdentityFile "{tmp_path}/a 100%% home/.nbprov/gang/id_ed25519"'
        in (folder / CONFIG).read_text()
    )
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (folder / "gang").iterdir()) == [
        "id_ed25519",
        "known_hosts",
        "ssh_config",
    ]


LET_IN = """
import resource, runpy, sys
if int(sys.argv[2]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
side = runpy.run_path(sys.argv[1])
side["let_in"]('from="10.0.0.9" ssh-ed25519 AAAAnew nbprov-gang', "nbprov-gang")
"""


def let_in(logins: Path, most: int = 0) -> subprocess.CompletedProcess[str]:
    """What a machine does whose files may have `most` bytes.

    As on a full disk, a write fails in the middle.
    """
    env = {**os.environ, "NBPROV_AUTHORIZED_KEYS": str(logins)}
    return subprocess.run(
        [sys.executable, "-c", LET_IN, gang_files.__file__, str(most)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(os.name != "posix", reason="runs on the machine, which is never Windows")
def test_a_full_disk_locks_nobody_out(tmp_path: Path) -> None:
    real, logins = tmp_path / "real", tmp_path / "authorized_keys"
    real.write_text("".join(f"ssh-ed25519 AAAAmine{number} me@home\n" for number in range(100)))
    real.chmod(0o640)
    logins.symlink_to(real)
    before = real.read_bytes()
    failed = let_in(logins, 1000)
    assert failed.returncode == 1
    assert (
        failed.stderr
        == f"{real} is as it was, since a new one could not be written: File too large\n"
    )
    assert real.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["authorized_keys", "real"], (
        "no draft is left"
    )
    assert let_in(logins).returncode == 0
    assert real.read_text() == before.decode() + 'from="10.0.0.9" ssh-ed25519 AAAAnew nbprov-gang\n'
    assert (real.stat().st_mode & 0o777, logins.is_symlink()) == (0o640, True)


@pytest.mark.skipif(os.name != "posix", reason="runs on the machine, which is never Windows")
def test_a_file_that_cannot_be_replaced_gets_a_line_more_or_stays(tmp_path: Path) -> None:
    logins = tmp_path / "authorized_keys"
    logins.write_text("ssh-ed25519 AAAAmine me@home")
    gang_files.append(str(logins), "one")
    assert logins.read_text() == "ssh-ed25519 AAAAmine me@home\none\n"
    script = (
        "import resource, runpy, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (40,"
        " -1))\nrunpy.run_path(sys.argv[1])['append'](sys.argv[2], 'x' * 99)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script, gang_files.__file__, str(logins)],
            capture_output=True,
            timeout=60,
        ).returncode
        == 1
    )
    assert logins.read_text() == "ssh-ed25519 AAAAmine me@home\none\n"


def test_one_machine_gets_no_key(tmp_path: Path) -> None:
    keys = ClusterKeys.create(tmp_path / "k")
    told = json.loads(node_files(gang("10.0.0.5"), keys))
    assert (sorted(told["files"]), told["login"]) == (["hosts", "hosts.hydra"], "")
    assert not (keys.folder / INNER_KEY).exists()


def test_launchers_find_what_they_look_for() -> None:
    told = {"num_gpus": 8, "task_id": "t", "cluster_info": {}, "port": 29500}
    env = environment_variables(
        node_rank=1, node_ips=["10.0.0.5", "10.0.0.6"], files={"NBPROV_HOSTFILE": "/h"}, **told
    )  # type: ignore[arg-type]
    named = {
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "8",
        "MASTER_ADDR": "10.0.0.5",
        "MASTER_PORT": "29500",
    }
    assert named.items() <= env.items()
    assert {f"PET_{name}": value for name, value in named.items()}.items() <= env.items()
    assert env["NBPROV_HOSTFILE"] == "/h"
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "PET_RDZV_ENDPOINT"} & set(env)
    assert not [
        name
        for name in environment_variables(node_rank=0, node_ips=["10.0.0.5"], **told)
        if name.startswith("PET_")
    ]  # type: ignore[arg-type]
