"""The start script, run by a real shell."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from nbprov.model.errors import UsageError
from nbprov.on_machine.agent.guards.guard_clocks import RETURN_SECONDS, GuardClocks
from nbprov.on_machine.agent.guards.poweroff_file import read_poweroff, write_poweroff
from nbprov.on_machine.agent.lifecycle.start_file import write_start
from nbprov.remote.boot.user_data import (
    USER_DATA_LIMIT,
    boot_template,
    template_values,
)
from nbprov.remote.ssh.keys import ClusterKeys


def _filled(template: str, keys: ClusterKeys) -> str:
    for name, value in template_values(keys).items():
        template = template.replace(f"@@{name}@@", value)
    return template


def _run(script: str, home: Path) -> None:
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    env |= {
        "NBPROV_HOST_KEY": str(home / "ssh" / "key"),
        "NBPROV_AUTHORIZED_KEYS": str(home / "ssh" / "logins"),
    }
    done = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def _guard(home: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"nbprov-boot-guard" in words and str(home / ".nbprov").encode() in words:
                found.append(int(entry.name))
    return found


def _becomes_one(home: Path, seconds: float = 60) -> bool:
    """Whether one guard remains: a child that the shell has just forked bears its parent's words
    until it is another program.
    """
    end = time.monotonic() + seconds
    while len(_guard(home)) != 1:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(pid)
            if group != os.getpgid(0):
                os.killpg(group, signal.SIGKILL)


def test_it_puts_keys_in_place_and_may_run_again(tmp_path: Path, keys: ClusterKeys) -> None:
    home = tmp_path / "home"
    script = _filled(boot_template("true"), keys)
    home.mkdir()
    (home / "ssh").mkdir()
    (home / "ssh" / "logins").write_text("ssh-ed25519 AAAA somebody@else")
    try:
        _run(script, home)
        _run(script, home)
        assert (home / "ssh" / "logins").read_text().splitlines() == [
            "ssh-ed25519 AAAA somebody@else",
            keys.client_public,
        ]
        assert stat.S_IMODE((home / "ssh" / "key").stat().st_mode) == 0o600
        public = subprocess.run(
            ["ssh-keygen", "-y", "-f", str(home / "ssh" / "key")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert public.split()[:2] == keys.host_public.split()[:2]
        assert (home / "ssh" / "key.pub").read_text().strip() == keys.host_public
        assert (home / ".nbprov" / "boot.id").read_text().strip()
    finally:
        _end(_guard(home))


def test_it_fits_the_smallest_user_data_and_its_template_holds_no_key(keys: ClusterKeys) -> None:
    template = boot_template("sudo -n shutdown -h now {reason}", mode="stop")
    assert len(_filled(template, keys).encode()) < USER_DATA_LIMIT
    assert "PRIVATE" not in template
    assert "@@" not in _filled(template, keys)


def _wait_for(path: Path, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path.exists()


def test_the_boot_guard_ends_a_machine_without_an_agent(tmp_path: Path, keys: ClusterKeys) -> None:
    home = tmp_path / "home"
    try:
        _run(
            _filled(
                boot_template(
                    'echo {mode} {reason} >"$HOME/off.new"; mv "$HOME/off.new" "$HOME/off"',
                    guard_seconds=1,
                ),
                keys,
            ),
            home,
        )
        assert _wait_for(home / "off")
        assert (home / "off").read_text() == "terminate no agent was started in time\n"
    finally:
        _end(_guard(home))


def test_the_boot_guard_waits_while_an_agent_lives_and_is_armed_anew_when_none_does(
    tmp_path: Path, keys: ClusterKeys
) -> None:
    home = tmp_path / "home"
    nbprov = home / ".nbprov"
    nbprov.mkdir(parents=True)
    # Stands for `keep`: lasts while an agent lives, and fails where none can be run.
    (nbprov / "start").write_text(
        'cd "$HOME"; [ -e dead ] && { touch tried; exit 1; }\n'
        "touch begun; while [ ! -e dead ]; do sleep 0.05; done\n"
    )
    try:
        _run(_filled(boot_template('touch "$HOME/off"', guard_seconds=4), keys), home)
        assert _wait_for(home / "begun")
        time.sleep(5)
        assert not (home / "off").exists()
        assert _guard(home)
        (home / "dead").touch()
        assert _wait_for(home / "off")
        assert (home / "tried").exists()
    finally:
        (home / "dead").touch()
        _end(_guard(home))


def test_the_boot_guard_starts_an_agent_that_has_ended_again(
    tmp_path: Path, keys: ClusterKeys
) -> None:
    home = tmp_path / "home"
    (home / ".nbprov").mkdir(parents=True)
    (home / ".nbprov" / "start").write_text('cd "$HOME"; echo started >>starts\n')
    starts = home / "starts"
    try:
        _run(_filled(boot_template('touch "$HOME/off"', guard_seconds=60), keys), home)
        end = time.monotonic() + 60
        while time.monotonic() < end and not (
            starts.exists() and len(starts.read_text().splitlines()) > 1
        ):
            time.sleep(0.02)
        assert len(starts.read_text().splitlines()) > 1
        assert not (home / "off").exists()
    finally:
        _end(_guard(home))


@pytest.mark.parametrize(
    "poweroff",
    [
        "sudo -n poweroff",
        'sh "$HOME/.nbprov/poweroff" {mode} {reason}',
        "printf '%s\\n' \"it's {mode}\" `date`",
        ":",
    ],
)
def test_an_agent_without_guards_knows_from_the_start_script_how_to_end_the_machine(
    tmp_path: Path, keys: ClusterKeys, poweroff: str
) -> None:
    home = tmp_path / "home"
    script = _filled(boot_template(poweroff), keys)
    try:
        _run(script, home)
        known = read_poweroff(home / ".nbprov")
        assert known == {"poweroff": poweroff, "mode": "terminate"}
        write_poweroff(home / ".nbprov", {**known, "idle_seconds": 60, "mode": "stop"})
        _run(script, home)
        assert read_poweroff(home / ".nbprov") == {"poweroff": poweroff, "mode": "stop"}, (
            "what the guards said is kept over a boot"
        )
    finally:
        _end(_guard(home))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="stop"):
        boot_template(mode="pause")


def _variants() -> list[str]:
    long = "a" * 32
    return [
        boot_template(),
        boot_template("nbprov-poweroff {mode} {reason}", mode="stop"),
        boot_template(login="root"),
        boot_template(login=long),
    ]


@pytest.mark.parametrize("number", range(4))
def test_every_variant_is_plain_sh_and_small_and_holds_no_key(
    number: int, keys: ClusterKeys
) -> None:
    template = _variants()[number]
    assert "PRIVATE" not in template
    assert keys.client_public not in template
    script = _filled(template, keys)
    assert "@@" not in script
    assert len(script.encode()) <= USER_DATA_LIMIT
    for word in (
        "WHO",
        "AGAIN",
        "ACCOUNT",
        "KEEP",
        "GUARD",
        "LOGIN",
        "OTHER",
        "SECONDS",
        "POWEROFF",
        "OFF_FILE",
    ):
        assert word not in script, "a place that was not filled"
    # sh is dash on Debian and bash on Red Hat; busybox where there is one.
    shells = [
        words
        for words in (["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"])
        if shutil.which(words[0])
    ]
    for words in shells:
        done = subprocess.run(
            [*words, "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), words


def test_where_the_places_of_the_keys_are_named_a_login_changes_nothing(
    tmp_path: Path, keys: ClusterKeys
) -> None:
    home = tmp_path / "home"
    try:
        _run(_filled(boot_template("true", login="nobody-of-this-name"), keys), home)
        assert (home / "ssh" / "logins").read_text().splitlines() == [keys.client_public]
        assert (home / ".nbprov" / "boot.id").read_text().strip()
        assert _becomes_one(home)
    finally:
        _end(_guard(home))


@pytest.mark.parametrize(
    "login", ["ALL", "-r", "a b", "x;reboot", "a" * 33, "ünal", "a/../b", "a\nb"]
)
def test_a_login_that_is_no_name_is_refused(login: str) -> None:
    with pytest.raises(UsageError) as caught:
        boot_template("true", login=login)
    assert caught.value.code == "remote.login"


def test_with_a_login_the_guard_needs_no_sudo() -> None:
    assert "{ poweroff\n" in boot_template(login="ubuntu")
    assert "{ sudo -n poweroff\n" in boot_template()


def test_the_agents_start_file_holds_its_command_and_no_variable_but_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/opt/it's own/bin:/usr/bin:/bin")
    monkeypatch.setenv("SOME_TOKEN", "sesame")
    write_start(str(tmp_path), 0o027, "/opt/it's/agent.pyz")
    text = (tmp_path / "start").read_text()
    assert "sesame" not in text
    said = subprocess.run(
        ["sh", "-c", text.replace("exec ", "set -x; : ") + 'umask; echo "$PATH"; pwd'],
        env={"HOME": "/", "PATH": "/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines() == ["0027", "/opt/it's own/bin:/usr/bin:/bin", "/"]
    assert f"-I -S /opt/it's/agent.pyz keep {tmp_path}" in said.stderr
    write_start(str(tmp_path / "missing"), 0o022, "agent.pyz")


def test_a_limit_reached_before_a_boot_waits_for_a_new_one_but_not_for_ever(tmp_path: Path) -> None:
    budget = {"hourly_micros": 3_600_000_000, "limit_micros": 60_000_000, "mode": "stop"}
    before = GuardClocks(tmp_path, 10.0, 1000.0, "first boot")
    before.set({"poweroff": "true", "budget": budget, "max_lifetime_seconds": 1000.0})
    before.tick(100.0, 1090.0, [])
    before.save()
    assert before.due() is not None
    again = GuardClocks(tmp_path, 5.0, 1200.0, "second boot", is_boot=True)
    again.tick(5.0 + RETURN_SECONDS - 1, 1200.0, [])
    assert again.due() is None
    again.tick(5.0 + RETURN_SECONDS, 1200.0, [])
    due = again.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("budget", "stop")


def test_a_new_configuration_counts_at_once_and_other_limits_are_not_put_off(
    tmp_path: Path,
) -> None:
    config = {"poweroff": "true", "max_lifetime_seconds": 50.0, "idle_seconds": 60.0}
    before = GuardClocks(tmp_path, 10.0, 1000.0, "first boot")
    before.set(config)
    before.tick(100.0, 1090.0, [])
    before.save()
    again = GuardClocks(tmp_path, 5.0, 1200.0, "second boot", is_boot=True)
    again.tick(66.0, 1261.0, [])
    due = again.due()
    assert due is not None
    assert due["guard"] == "idle"
    again.set({**config, "max_lifetime_seconds": 40.0})
    due = again.due()
    assert due is not None
    assert due["guard"] == "lifetime"


def test_what_a_kernel_tells_again_takes_nobody_the_time_after_a_start(tmp_path: Path) -> None:
    budget = {"hourly_micros": 3600, "limit_micros": 50, "spent_micros": 0, "mode": "stop"}
    config = {"poweroff": "true", "budget": budget}
    before = GuardClocks(tmp_path, 10.0, 1000.0, "first boot")
    before.set(config)
    before.tick(100.0, 1090.0, [])
    before.save()
    again = GuardClocks(tmp_path, 5.0, 1200.0, "second boot", is_boot=True)
    again.set({**config, "budget": {**budget, "spent_micros": 95}})
    again.tick(4.0 + RETURN_SECONDS, 1200.0, [])
    assert again.due() is None
    again.set({**config, "budget": {**budget, "limit_micros": 60, "spent_micros": 95}})
    assert again.due() is not None
