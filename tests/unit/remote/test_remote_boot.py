"""The start script, run by a real shell."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from nbprov.remote.boot import USER_DATA_LIMIT, boot_template, fills
from nbprov.remote.keys import ClusterKeys


def _filled(template: str, keys: ClusterKeys) -> str:
    for name, value in fills(keys).items():
        template = template.replace(f"@@{name}@@", value)
    return template


def _run(script: str, home: Path) -> None:
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    env |= {"NBPROV_HOST_KEY": str(home / "ssh" / "key"), "NBPROV_AUTHORIZED_KEYS": str(home / "ssh" / "logins")}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _guard(home: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"nbprov-boot-guard" in words and str(home / ".nbprov" / "agent.started").encode() in words:
                found.append(int(entry.name))
    return found


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
        assert (home / "ssh" / "logins").read_text().splitlines() == ["ssh-ed25519 AAAA somebody@else", keys.client_public]
        assert stat.S_IMODE((home / "ssh" / "key").stat().st_mode) == 0o600
        public = subprocess.run(["ssh-keygen", "-y", "-f", str(home / "ssh" / "key")], capture_output=True, text=True, check=True).stdout
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


def _wait_for(path: Path, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path.exists()


def test_the_boot_guard_ends_a_machine_without_an_agent(tmp_path: Path, keys: ClusterKeys) -> None:
    home = tmp_path / "home"
    try:
        _run(_filled(boot_template('echo {mode} {reason} >"$HOME/off.new"; mv "$HOME/off.new" "$HOME/off"', guard_seconds=1), keys), home)
        assert _wait_for(home / "off")
        assert (home / "off").read_text() == "terminate no agent was started in time\n"
    finally:
        _end(_guard(home))


def test_the_boot_guard_goes_once_an_agent_has_started(tmp_path: Path, keys: ClusterKeys) -> None:
    home = tmp_path / "home"
    _run(_filled(boot_template('touch "$HOME/off"', guard_seconds=1), keys), home)
    pids = _guard(home)
    try:
        assert pids
        (home / ".nbprov" / "agent.started").touch()
        end = time.monotonic() + 10
        while _guard(home) and time.monotonic() < end:
            time.sleep(0.02)
        assert _guard(home) == []
        assert not (home / "off").exists()
    finally:
        _end(_guard(home))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="stop"):
        boot_template(mode="pause")
