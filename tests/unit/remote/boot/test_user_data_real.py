"""The start script as root, on a system of its own.

Its /etc, homes and /var are copies, its processes a namespace; useradd, su and sshd are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quiet_ports import free_port

from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig, GuardConfig
from nbprov.remote.boot.user_data import PER_BOOT, boot_template, template_values
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.remote.ssh.readiness import wait_for_ssh

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform != "linux", reason="useradd and namespaces are Linux's"),
    pytest.mark.skipif(
        not (IS_ROOT and shutil.which("bwrap")),
        reason="only root makes users and runs their processes, in a system below bwrap",
    ),
]

TIMED_OUT = 124
DEADLINE = 20.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POWEROFF = "sudo -n touch /var/off.{mode}"
SSHD = (
    "exec /usr/sbin/sshd -D -e -p {port} -o ListenAddress=127.0.0.1 -o UsePAM=no -o StrictModes=yes"
)
"""Without PAM sshd turns locked accounts away by itself, so that a login which only PAM would let
in is noticed.
"""
AGAIN = f'for script in {PER_BOOT}/*; do "$script"; done'


class System:
    """A system below a folder: `boot` starts it with a command as its first process, `off` ends all
    that runs in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.hidden: list[str] = []
        self.own_network = False
        folder.mkdir()
        shutil.copytree("/etc", folder / "etc", symlinks=True)
        for name in (
            "home",
            "root",
            "tmp",
            "var/log",
            "var/mail",
            "var/lib",
            "run/sshd",
            "etc/sudoers.d",
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        for key in (folder / "etc" / "ssh").glob("ssh_host_*"):
            key.unlink()

    def command(self, *words: str) -> list[str]:
        arguments = [
            "bwrap",
            "--unshare-pid",
            "--unshare-ipc",
            "--die-with-parent",
            "--ro-bind",
            "/usr",
            "/usr",
        ]
        for name in ("bin", "sbin", "lib", "lib32", "lib64"):
            place = Path("/", name)
            if place.is_symlink():
                arguments += ["--symlink", os.readlink(place), str(place)]
            elif place.is_dir():
                arguments += ["--ro-bind", str(place), str(place)]
        for name in ("etc", "home", "root", "tmp", "var", "run"):
            arguments += ["--bind", str(self.folder / name), f"/{name}"]
        if self.own_network:
            arguments.append("--unshare-net")
        for name in self.hidden:
            arguments += ["--ro-bind", "/dev/null", name]
        return [*arguments, "--dev", "/dev", "--proc", "/proc", "--chdir", "/", *words]

    def boot(self, first: str) -> None:
        with (self.folder / "console").open("ab") as out:
            self.process = subprocess.Popen(
                self.command("sh", "-c", first),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def run(self, first: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Boot, wait until the first process ends, and with it all others."""
        return subprocess.run(
            self.command("sh", "-c", first),
            env=environment() | more,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    def off(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def put(self, name: str, text: str, mode: int = 0o700) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def account(self, login: str) -> list[str]:
        lines = (self.folder / "etc" / "passwd").read_text().splitlines()
        return next((line.split(":") for line in lines if line.startswith(f"{login}:")), [])


def environment() -> dict[str, str]:
    """What a start script finds: no HOME, as under some clouds' agents.

    The suite's own mark goes along.
    """
    return {"PATH": PATH} | {k: v for k, v in os.environ.items() if k.startswith("NBPROV_TEST_")}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    made = System(tmp_path / "system")
    yield made
    made.off()


@pytest.fixture
def login() -> str:
    """A name that no other test's processes bear."""
    return f"u{uuid.uuid4().hex[:8]}"


def filled(template: str, keys: ClusterKeys) -> str:
    for name, value in template_values(keys).items():
        template = template.replace(f"@@{name}@@", value)
    return template


def guards(login: str) -> list[int]:
    """The boot guards that wait for this user's agent, by their command lines."""
    found, mark = [], f"/home/{login}/.nbprov".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"nbprov-boot-guard" in words and mark in words:
                found.append(int(entry.name))
    return found


async def until(look: Any, what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not look():
        assert time.monotonic() < end, f"{what}: not within {DEADLINE:g} s"
        await asyncio.sleep(0.02)


async def entered(port: int, keys: ClusterKeys, login: str) -> Connection:
    return await wait_for_ssh("127.0.0.1", port, keys, DEADLINE, login, boot_grace=DEADLINE)


async def test_a_login_is_made_and_guards_hold_after_a_reboot_without_a_notebook(
    system: System, keys: ClusterKeys, login: str
) -> None:
    (system.folder / PER_BOOT[1:]).mkdir(parents=True)
    system.put("root/user-data", filled(boot_template(POWEROFF, login=login), keys))
    port, home = free_port(), system.folder / "home" / login
    system.boot(f"sh /root/user-data; {SSHD.format(port=port)}")
    connection = await entered(port, keys, login)
    said = await connection.run('id -un; pwd; ls -ld "$HOME"/.nbprov "$HOME"/.ssh; sh -c "id -u"')
    assert said.stdout.splitlines()[:2] == [login, f"/home/{login}"], said.stderr
    assert len(guards(login)) == 1
    client = await AgentClient.start(
        connection,
        AgentConfig(guards=GuardConfig(POWEROFF, idle_seconds=3600, max_lifetime_seconds=7200)),
    )
    await client.close()
    nbprov = home / ".nbprov"
    account = system.account(login)
    assert {path.lstat().st_uid for path in (home, *home.rglob("*"))} == {int(account[2])}
    assert [
        stat.S_IMODE(path.stat().st_mode)
        for path in (home / ".ssh", home / ".ssh" / "authorized_keys", nbprov)
    ] == [
        0o700,
        0o600,
        0o700,
    ]
    sudoers = system.folder / "etc" / "sudoers.d" / "90-nbprov"
    assert (sudoers.read_text(), stat.S_IMODE(sudoers.stat().st_mode)) == (
        f"{login} ALL=(ALL) NOPASSWD:ALL\n",
        0o440,
    )
    start = (nbprov / "start").read_text()
    assert f"keep /home/{login}/.nbprov" in start
    boot_id, clock = (
        (nbprov / "boot.id").read_text(),
        json.loads((nbprov / "guards.json").read_text()),
    )

    system.off()
    again = system.folder / PER_BOOT[1:] / "nbprov"
    assert "PRIVATE" not in again.read_text()
    assert keys.client_public.split()[1] not in again.read_text()
    (nbprov / "agent.json").unlink()
    system.boot(f"{AGAIN}; {SSHD.format(port=port)}")
    await until((nbprov / "agent.json").exists, "the agent's return")
    assert (nbprov / "boot.id").read_text() not in ("", boot_id)
    assert len(guards(login)) == 1
    connection = await entered(port, keys, login)
    agent = (
        await connection.run(
            "ps -o user:32=,args= -C python3,python3.11,python | grep -E '[s]erve |[k]eep '"
        )
    ).stdout.split()
    client = await AgentClient.start(connection, AgentConfig())
    status = await client.status()
    await client.close()
    assert {(state.guard, state.mode) for state in status.guards} == {
        ("idle", "terminate"),
        ("lifetime", "terminate"),
    }
    assert status.age >= clock["age"]
    assert agent[0] == login
    assert (nbprov / "start").read_text() == start


async def test_a_script_that_runs_at_every_boot_starts_the_agent_again_too(
    system: System, keys: ClusterKeys, login: str
) -> None:
    system.put("root/user-data", filled(boot_template(POWEROFF, login=login), keys))
    port, nbprov = free_port(), system.folder / "home" / login / ".nbprov"
    first = f"sh /root/user-data; {SSHD.format(port=port)}"
    system.boot(first)
    client = await AgentClient.start(
        await entered(port, keys, login),
        AgentConfig(guards=GuardConfig(POWEROFF, idle_seconds=3600)),
    )
    await client.close()
    system.off()
    (nbprov / "agent.json").unlink()
    system.boot(first)
    await until((nbprov / "agent.json").exists, "the agent's return")
    # The same boot, once more, as where two of a cloud's services run it: who comes second waits.
    connection = await entered(port, keys, login)
    waits = await connection.run("timeout 3 sh ~/.nbprov/start")
    assert waits.exit_code == TIMED_OUT
    assert (system.folder / "home" / login / ".ssh" / "authorized_keys").read_text().count(
        keys.client_public
    ) == 1
    await connection.close()


def test_links_of_the_user_lead_root_nowhere(system: System, keys: ClusterKeys, login: str) -> None:
    assert system.run(f"useradd -m {login}").returncode == 0
    home, treasure = system.folder / "home" / login, system.folder / "root" / "treasure"
    treasure.mkdir()
    (treasure / "agent.json").touch()
    (treasure / "authorized_keys").write_text("mine\n")
    (system.folder / "root").chmod(0o755)
    for name in (".nbprov", ".ssh"):
        (home / name).symlink_to("/root/treasure")
    system.put("root/user-data", filled(boot_template("true", login=login), keys))
    done = system.run("sh /root/user-data")
    assert done.returncode == 0
    assert sorted(p.name for p in treasure.iterdir()) == ["agent.json", "authorized_keys"]
    assert (treasure / "authorized_keys").read_text() == "mine\n"


def test_a_login_that_is_there_keeps_what_it_has(
    system: System, keys: ClusterKeys, login: str
) -> None:
    assert (
        system.run(
            f"useradd -m -s /bin/sh -d /home/elsewhere {login}; mkdir -m 700 /home/elsewhere/.ssh"
        ).returncode
        == 0
    )
    logins = system.folder / "home" / "elsewhere" / ".ssh" / "authorized_keys"
    logins.write_text("ssh-ed25519 AAAA theirs")
    logins.chmod(0o600)
    before = system.account(login)
    for path in (logins.parent, logins):
        os.chown(path, int(before[2]), int(before[3]))
    system.put("root/user-data", filled(boot_template("true", login=login), keys))
    assert system.run("sh /root/user-data; sh /root/user-data").stderr == ""
    assert system.account(login) == before
    assert logins.read_text().splitlines() == ["ssh-ed25519 AAAA theirs", keys.client_public]


def test_a_group_of_the_same_name_is_no_obstacle(
    system: System, keys: ClusterKeys, login: str
) -> None:
    system.put("root/user-data", filled(boot_template("true", login=login), keys))
    system.run(f"groupadd {login}; sh /root/user-data")
    assert system.account(login)
    assert (system.folder / "home" / login / ".ssh" / "authorized_keys").exists()


def test_root_is_no_login_to_be_made(system: System, keys: ClusterKeys) -> None:
    system.put("root/user-data", filled(boot_template("true", login="root"), keys))
    assert system.run("sh /root/user-data", HOME="/nowhere").stderr == ""
    assert (
        system.folder / "root" / ".ssh" / "authorized_keys"
    ).read_text() == keys.client_public + "\n"
    assert not (system.folder / "etc" / "sudoers.d" / "90-nbprov").exists()


def test_a_boot_guard_armed_at_a_later_boot_ends_a_machine_whose_agent_does_not_return(
    system: System, keys: ClusterKeys, login: str
) -> None:
    (system.folder / PER_BOOT[1:]).mkdir(parents=True)
    system.put(
        "root/user-data",
        filled(
            boot_template(
                "sudo -n touch /var/off.{mode}", mode="stop", login=login, guard_seconds=1
            ),
            keys,
        ),
    )
    home = f"/home/{login}/.nbprov"
    # As after a start over ssh, but with an agent that cannot start any more.
    assert system.run(f"sh /root/user-data; echo 'exit 1' >{home}/start").returncode == 0
    done = system.run(f"{AGAIN}; until [ -e /var/off.stop ]; do sleep 0.05; done; echo off")
    assert done.stdout == "off\n", done.stderr


SYSTEMCTL = """#!/bin/sh
echo "$@" >>/var/log/systemctl
[ "$1" != is-active ] || exit 3
[ "$1" != stop ] || { kill "$(cat /run/updates.pid)"; flock /var/lib/apt.lock true; }
"""
"""Ends the automatic updates where it is told to stop something."""

APT_GET = """#!/bin/sh
exec 8>/var/lib/apt.lock
wait=$(sed -n 's/^DPkg::Lock::Timeout "\\([0-9]*\\)";$/\\1/p' /etc/apt/apt.conf.d/*)
flock -n 8 || { touch /run/waits; flock -w "${wait:-0}" 8 || exit 100; }
echo installed
"""
"""Needs the lock, and waits for it as long as apt's settings say."""

SETUP = """
sh -c 'exec 9>/var/lib/apt.lock; flock 9; touch /run/updates; exec sleep 600' &
echo $! >/run/updates.pid
until [ -e /run/updates ]; do sleep 0.05; done
sh /root/user-data || exit
apt-get install -y python3-venv &
until [ -e /run/waits ] || ! kill -0 $!; do sleep 0.05; done 2>/dev/null
[ ! -e /run/waits ] || kill "$(cat /run/updates.pid)"
wait $!
"""
"""Automatic updates run as the machine boots. `setup` installs something, and if it has to wait,
the updates come to their end.
"""


@pytest.mark.parametrize("has_systemd", [True, False])
def test_automatic_updates_at_a_boot_do_not_keep_setup_from_apt(
    system: System, keys: ClusterKeys, login: str, has_systemd: bool
) -> None:
    (system.folder / "etc" / "apt" / "apt.conf.d").mkdir(parents=True, exist_ok=True)
    if has_systemd:
        (system.folder / "run" / "systemd" / "system").mkdir(parents=True)
    system.put("root/bin/systemctl", SYSTEMCTL)
    system.put("root/bin/apt-get", APT_GET)
    system.put("root/user-data", filled(boot_template("true", login=login), keys))
    done = system.run(SETUP, PATH=f"/root/bin:{PATH}")
    assert (done.returncode, done.stdout) == (0, "installed\n"), done.stderr
    asked = system.folder / "var" / "log" / "systemctl"
    if has_systemd:
        assert not (system.folder / "run" / "waits").exists()
        assert asked.read_text().splitlines()[:2] == [
            "mask --runtime --now apt-daily.timer apt-daily-upgrade.timer",
            "stop --no-block apt-daily apt-daily-upgrade unattended-upgrades",
        ]
    else:
        assert (system.folder / "run" / "waits").exists()
        assert not asked.exists()


def test_a_machine_without_apt_gets_no_settings_of_it(
    system: System, keys: ClusterKeys, login: str
) -> None:
    shutil.rmtree(system.folder / "etc" / "apt")
    (system.folder / "run" / "systemd" / "system").mkdir(parents=True)
    system.put("root/bin/systemctl", SYSTEMCTL)
    system.put("root/user-data", filled(boot_template("true", login=login), keys))
    done = system.run("sh /root/user-data", PATH=f"/root/bin:{PATH}")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (system.folder / "etc" / "apt").exists()
    asked = (system.folder / "var" / "log" / "systemctl").read_text()
    assert "apt" not in asked
