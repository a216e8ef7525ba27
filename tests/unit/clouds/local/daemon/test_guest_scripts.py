"""A poweroff in a `local` machine ends that machine, and never the computer that runs it.

Each test first checks that the commands it is about to run are the machine's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clouds_under_test import LocalUnderTest, eventually

from nbprov.clouds.contract.checks import answers
from nbprov.clouds.local.daemon import guest_scripts, hidden_paths, isolation
from nbprov.clouds.local.daemon.isolation import IsolationLevel
from nbprov.model.launches import Instance, InstanceState, OnShutdown

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform != "linux", reason="the better levels are Linux's"),
]

OWN = ("sudo", "nbprov-poweroff", *guest_scripts.POWER_NAMES)

ENDINGS = (
    "sudo -n poweroff",
    "poweroff",
    "shutdown -h now",
    "halt -p",
    "reboot",
    "systemctl poweroff",
    "sudo -nE systemctl --no-block -i reboot",
    "systemctl start poweroff.target",
    "sudo -H -u root -- /sbin/shutdown -P now",
    "sudo LANG=C nohup sh -c 'exec halt'",
    "init 0",
    "bash -lc 'sudo poweroff'",
    "nbprov-poweroff",
)


def works(level: IsolationLevel, folder: Path) -> bool:
    try:
        return isolation.probe(folder, level.value) is level
    except OSError:
        return False


@pytest.fixture(params=[IsolationLevel.BWRAP.value, IsolationLevel.MARKER.value])
def level(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> IsolationLevel:
    found = IsolationLevel(request.param)
    if not works(found, tmp_path):
        pytest.skip(f"{found.value} does not work on this computer")
    monkeypatch.setenv(isolation.ISOLATION_VARIABLE, found.value)
    return found


def safe(local: LocalUnderTest, machine: Instance) -> None:
    """Check that every poweroff command is the machine's own, in an ssh command and in a login
    shell.
    """
    eventually(lambda: answers(machine), "an ssh server")
    look = f"for name in {' '.join(OWN)}; do command -v $name; done"
    expected = [str(local.folder / "i" / machine.id / "bin" / name) for name in OWN]
    said = local.run(machine, f"{look}; bash -lc '{look}'")
    assert said.stdout.splitlines() == expected * 2, said.stderr


def machines(
    local: LocalUnderTest, count: int, on_shutdown: OnShutdown
) -> tuple[str, list[Instance]]:
    """Launch machines that are safe to power off."""
    launch = local.launch(count=count, on_shutdown=on_shutdown)
    found = local.running(launch)
    for machine in found:
        safe(local, machine)
    return launch.owner, found


@pytest.fixture
def one(local: LocalUnderTest) -> Instance:
    """Launch a machine for commands that do not end it."""
    return machines(local, 1, OnShutdown.TERMINATE)[1][0]


def test_every_command_that_powers_off_ends_the_machine_alone(
    level: IsolationLevel, local: LocalUnderTest
) -> None:
    owner, found = machines(local, len(ENDINGS) + 1, OnShutdown.STOP)
    for machine, command in zip(found, ENDINGS, strict=False):
        # The session may be cut off before it reports how the command ended.
        local.run(machine, f"NBPROV_REASON='by hand' {command}")
        shown = local.in_state(owner, machine.id, InstanceState.STOPPED)
        assert shown.reason == "powered itself off: by hand", command
    last = next(m for m in local.cloud.list(owner) if m.id == found[-1].id)
    assert last.state is InstanceState.RUNNING
    assert local.run(last, "echo lives").stdout == "lives\n"


def test_without_a_mode_the_create_says_what_becomes_of_it(
    level: IsolationLevel, local: LocalUnderTest
) -> None:
    owner, (machine,) = machines(local, 1, OnShutdown.TERMINATE)
    local.run(machine, "sudo -n poweroff")
    shown = local.in_state(owner, machine.id, InstanceState.GONE)
    assert shown.reason == "powered itself off"


def test_a_mode_that_is_named_counts(local: LocalUnderTest) -> None:
    owner, (machine,) = machines(local, 1, OnShutdown.STOP)
    local.run(machine, "nbprov-poweroff terminate the budget is spent")
    assert (
        local.in_state(owner, machine.id, InstanceState.GONE).reason
        == "powered itself off: the budget is spent"
    )


def test_the_start_script_and_what_it_leaves_behind_find_the_same_commands(
    level: IsolationLevel, local: LocalUnderTest
) -> None:
    script = (
        '{ command -v sudo; command -v poweroff; } >"$HOME/said"; if [ -x "$(command -v '
        'poweroff)" ] && [ "${PATH%%:*}" = "$NBPROV_MACHINE/bin" ]; then\n'
    )
    script += (
        'setsid sh -c \'while [ ! -e "$HOME/go" ]; do sleep 0.02; done; sudo -n '
        "poweroff' >/dev/null 2>&1 </dev/null &\nfi\n"
    )
    launch = local.launch(
        user_data_template=local.launch().user_data_template + script, on_shutdown=OnShutdown.STOP
    )
    (machine,) = local.running(launch)
    safe(local, machine)
    folder = local.folder / "i" / machine.id
    assert local.run(machine, "cat said; touch go").stdout.splitlines() == [
        str(folder / "bin" / name) for name in ("sudo", "poweroff")
    ]
    local.in_state(launch.owner, machine.id, InstanceState.STOPPED)


def test_a_shutdown_in_some_minutes_waits_and_can_be_cancelled(
    local: LocalUnderTest, one: Instance
) -> None:
    assert local.run(one, "shutdown -h +30 'see you'; shutdown -h +08").returncode == 0
    seconds = local.run(one, "ps ax -o args | sed -n 's/^sleep //p' | sort").stdout.split()
    assert {"1800", "480"} <= set(seconds)
    pending = local.folder / "i" / one.id / "tmp" / ".shutdown"
    assert pending.exists()
    assert local.run(one, "shutdown -c").returncode == 0
    assert not pending.exists()
    assert local.run(one, "shutdown 23:59").returncode == 1
    assert local.run(one, "shutdown +5x").returncode == 1
    assert not (local.folder / "i" / one.id / "poweroff").exists()


def test_what_does_no_harm_is_no_power_off(local: LocalUnderTest, one: Instance) -> None:
    machine = local.folder / "i" / one.id
    for command in (
        "poweroff --help",
        "shutdown -k now",
        "systemctl --version",
        "systemctl status poweroff.target",
        "sudo -V",
        "sudo -n -v",
    ):
        local.run(one, command)
    assert local.run(one, "init 3").returncode == 1
    assert local.run(one, "systemctl suspend").returncode == 1
    assert local.run(one, "nbprov-poweroff sideways").returncode == 2
    assert not (machine / "poweroff").exists()
    assert local.run(one, "echo lives").stdout == "lives\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sudo -n true && echo may", "may\n"),
        ("sudo -nu root -g root --chdir /tmp -- echo 'a  b'", "a  b\n"),
        ("sudo -uroot -E WORD='x y' sh -c 'echo \"$WORD\"'", "x y\n"),
        ("sudo --preserve-env=HOME --user root echo $HOME | grep -c home", "1\n"),
        ("echo 'echo shell' | sudo -s", "shell\n"),
        ("sudo -i echo login", "login\n"),
        ("sudo /no/such/command 2>/dev/null || echo $?", "127\n"),
        (
            "PATH=/usr/bin:/bin $NBPROV_MACHINE/bin/sudo sh -c 'command -v poweroff | grep -c /i-'",
            "1\n",
        ),
    ],
)
def test_sudo_runs_the_rest_as_the_machines_own_user(
    local: LocalUnderTest, one: Instance, command: str, said: str
) -> None:
    assert local.run(one, command).stdout == said


def test_in_bubblewrap_an_absolute_path_ends_at_most_the_machine(
    local: LocalUnderTest, tmp_path: Path
) -> None:
    if not works(IsolationLevel.BWRAP, tmp_path):
        pytest.skip("bwrap does not work on this computer")
    owner, (machine,) = machines(local, 1, OnShutdown.STOP)
    for place in (
        "/run/systemd/private",
        "/run/dbus/system_bus_socket",
        "/run/initctl",
        f"/run/user/{os.getuid()}/bus",
    ):
        assert local.run(machine, f"test ! -e {place}").returncode == 0, place
    here = os.readlink("/proc/self/ns/pid")
    # In a process namespace of its own, the kernel limits a reboot to that namespace (reboot(2)).
    # Nothing is tried in this one.
    command = (
        f'[ "$(readlink /proc/self/ns/pid)" != "{here}" ] && [ -x /sbin/poweroff ] || '
        "exit 77; /sbin/poweroff --no-wall; touch tried; exec /sbin/poweroff -f -f -n"
    )
    done = local.run(machine, command)
    assert done.returncode != 77 or not Path("/sbin/poweroff").exists()
    if done.returncode != 77:
        assert (local.folder / "i" / machine.id / "home" / "tried").exists()
        # It has no capability to reboot anything, its own namespace included.
        assert local.in_state(owner, machine.id, InstanceState.RUNNING).host


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_scripts_are_plain_sh(shell: str, check_script: Callable[[str, str], None]) -> None:
    for script in (*guest_scripts.scripts("A100:1").values(), guest_scripts.BOOT):
        check_script(shell, script)


@pytest.fixture
def check_script() -> Callable[[str, str], None]:
    def check(shell: str, script: str) -> None:
        words = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
        try:
            done = subprocess.run(words, input=script, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return  # dash or bash is on every computer; others may be missing
        assert (done.returncode, done.stderr) == (0, "")

    return check


def test_what_the_computers_init_listens_on_is_hidden_and_names_still_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init, missing = tmp_path / "run" / "systemd", tmp_path / "run" / "dbus"
    init.mkdir(parents=True)
    monkeypatch.setattr(hidden_paths, "SERVICES", (init, missing, Path("/etc").resolve()))
    hidden, shown = hidden_paths.hidden_paths([tmp_path / "cloud"])
    assert init in hidden
    assert missing not in hidden
    resolver = Path("/etc/resolv.conf").resolve()
    assert resolver in shown or not resolver.is_file() or not resolver.is_relative_to("/etc")
