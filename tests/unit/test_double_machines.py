"""The machines behind the doubles are real.

They boot, are entered over ssh, power themselves off, stop and start.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import Machines

from nbprov.clouds.contract.double_machines import SHORT
from nbprov.clouds.local.daemon import processes
from nbprov.remote.boot.user_data import boot_template, template_values
from nbprov.remote.ssh.keys import ClusterKeys

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform == "win32", reason="the local cloud needs a POSIX system"),
]

DEADLINE = 20.0


def eventually(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE:g} s"
        time.sleep(0.01)


@pytest.fixture
def folder() -> Iterator[Path]:
    base = Path(os.environ["NBPROV_HOME"]).parent
    with tempfile.TemporaryDirectory(prefix="d", dir=base) as made:
        yield Path(made)


@pytest.fixture
def machines(folder: Path) -> Iterator[Machines]:
    with contextlib.closing(Machines(folder)) as made:
        yield made


@pytest.fixture
def keys(tmp_path: Path) -> ClusterKeys:
    return ClusterKeys.create(tmp_path / "keys")


def script(keys: ClusterKeys) -> str:
    """The start script that nbprov gives every machine.

    It holds the host key and the key that may log in.
    """
    text = boot_template("nbprov-poweroff {mode} {reason}")
    for name, value in template_values(keys).items():
        text = text.replace(f"@@{name}@@", value)
    return text


def ready(machines: Machines, machine: str) -> tuple[str, int]:
    eventually(lambda: machines.address(machine) != ("", 0), f"sshd of {machine}")
    return machines.address(machine)


def run(
    machines: Machines, machine: str, keys: ClusterKeys, command: str
) -> subprocess.CompletedProcess[str]:
    """Run a command over ssh, the host key checked against the one in the start script."""
    host, port = ready(machines, machine)
    known = keys.folder / "known"
    known.write_text(f"[{host}]:{port} {' '.join(keys.host_public.split()[:2])}\n")
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={known}",
        "GlobalKnownHostsFile=/dev/null",
    ]
    options += ["IdentitiesOnly=yes", "LogLevel=ERROR"]
    place = ["-i", str(keys.client_private_file), "-p", str(port), f"{machines.login()}@{host}"]
    words = ["ssh", "-F", "none", *(word for o in options for word in ("-o", o)), *place, command]
    return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=False)


def test_a_machine_boots_and_is_entered_with_the_keys_of_its_start_script(
    machines: Machines, keys: ClusterKeys
) -> None:
    machine = machines.create(user_data=script(keys))
    said = run(machines, machine, keys, 'echo "node $NBPROV_NODE"; pwd; exit 7')
    assert (said.returncode, said.stdout) == (7, f"node 0\n{machines.disk(machine) / 'home'}\n"), (
        said.stderr
    )
    assert (machines.state(machine), machines.reason(machine)) == ("running", "")
    machines.terminate(machine)
    eventually(lambda: machines.state(machine) == "gone", "its end")
    assert machines.address(machine) == ("", 0)
    assert processes.of_machine(machine) == []
    assert not machines.disk(machine).exists()


def test_a_key_given_at_the_create_lets_in_too(machines: Machines, keys: ClusterKeys) -> None:
    key = (
        'umask 077; cat >"$NBPROV_HOST_KEY" <<END\n'
        + keys.host_private.strip()
        + "\nEND\necho the start script ran"
    )
    machine = machines.create(user_data=key, public_key=keys.client_public)
    assert run(machines, machine, keys, "echo in").stdout == "in\n"
    assert "the start script ran" in machines.console(machine)


def test_nodes_and_gpus_are_told(machines: Machines, keys: ClusterKeys) -> None:
    machine = machines.create(user_data=script(keys), node=3, gpus="H100:2", gpu_memory_gib=80)
    said = run(
        machines,
        machine,
        keys,
        "echo $NBPROV_NODE; nvidia-smi --query-gpu=name,memory.total --format=csv,noheader",
    )
    assert said.stdout.splitlines() == ["3", *["H100 (simulated), 81920 MiB"] * 2], said.stderr


@pytest.mark.parametrize("mode", ["stop", "terminate"])
@pytest.mark.parametrize(
    "command",
    ["NBPROV_REASON='nothing to do' sudo -n poweroff", "nbprov-poweroff '' nothing to do"],
)
def test_a_power_off_from_inside_is_seen(
    machines: Machines, keys: ClusterKeys, mode: str, command: str
) -> None:
    machine = machines.create(user_data=script(keys), on_poweroff=mode)
    run(machines, machine, keys, command)
    eventually(
        lambda: machines.state(machine) == {"stop": "stopped", "terminate": "gone"}[mode],
        "power-off",
    )
    assert machines.reason(machine) == "powered itself off: nothing to do"
    assert processes.of_machine(machine) == []


def test_a_stopped_machine_keeps_its_disk_and_boots_again(
    machines: Machines, keys: ClusterKeys
) -> None:
    machine = machines.create(user_data=script(keys))
    assert run(machines, machine, keys, "echo kept >word; cat .nbprov/boot.id").stdout
    machines.stop(machine)
    eventually(lambda: machines.state(machine) == "stopped", "a stop")
    assert machines.address(machine) == ("", 0)
    machines.start(machine)
    assert run(machines, machine, keys, "cat word").stdout == "kept\n"


def test_a_long_folder_is_replaced_and_nothing_is_left_of_it(
    tmp_path: Path, keys: ClusterKeys
) -> None:
    made = Machines(tmp_path / ("x" * (SHORT + 1)))
    try:
        assert len(str(made.folder)) <= SHORT
        machine = made.create(user_data=script(keys))
        assert run(made, machine, keys, "echo in").stdout == "in\n"
    finally:
        made.close()
    made.close()
    assert not made.folder.exists()
    assert processes.of_machine(machine) == []


def test_a_daemon_that_was_killed_leaves_nothing_behind_at_the_close(
    folder: Path, keys: ClusterKeys
) -> None:
    made = Machines(folder)
    machine = made.create(user_data=script(keys))
    ready(made, machine)
    os.kill(int(made._call("describe")["pid"]), 9)
    made.close()
    assert processes.of_machine(machine) == []
    assert not made.disk(machine).exists()


def test_what_cannot_be_made_says_why(machines: Machines) -> None:
    with pytest.raises(ValueError, match="on_poweroff"):
        machines.create(on_poweroff="sleep")
    assert machines.state("i-000000000000") == "gone"
