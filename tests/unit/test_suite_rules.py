"""The rules of tests/conftest.py, each broken on purpose by a small suite run beside this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
PATIENCE = "ENDING_SECONDS = 20.0"


def _run(folder: Path, body: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    rules = CONFTEST.read_text(encoding="utf-8")
    assert PATIENCE in rules
    # What is left behind is waited for, in case it is about to end: here it never is.
    (folder / "conftest.py").write_text(
        rules.replace(PATIENCE, "ENDING_SECONDS = 0.5"), encoding="utf-8"
    )
    (folder / "test_it.py").write_text(body, encoding="utf-8")
    environment = {**os.environ, "CI": "true" if ci else ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


SKIPPING = """
import pytest
def test_skip(): pytest.skip('no such program')
@pytest.mark.skipif(True, reason='wrong day')
def test_skipif(): pass
@pytest.mark.xfail(reason='known fault')
def test_xfail(): assert False
def test_pass(): pass
"""


def test_what_did_not_run_is_named_and_fails_in_ci(tmp_path: Path) -> None:
    person = _run(tmp_path, SKIPPING, ci=False)
    assert person.returncode == 0, person.stdout
    named = [line for line in person.stdout.splitlines() if line.startswith("DID NOT RUN")]
    assert len(named) == 3, person.stdout
    for line, reason in zip(named, ("no such program", "wrong day", "known fault"), strict=True):
        assert reason in line
    ci = _run(tmp_path, SKIPPING, ci=True)
    assert ci.returncode == 1, ci.stdout
    assert (
        "2 failed, 1 passed, 1 error" in ci.stdout
    )  # what skips before its body is an error of its set-up


def test_a_module_that_skips_itself_is_named_and_fails_in_ci(tmp_path: Path) -> None:
    body = "import pytest\npytest.importorskip('no_such_module_anywhere')\n"
    person = _run(tmp_path, body, ci=False)
    assert person.returncode == 5, person.stdout
    assert "DID NOT RUN" in person.stdout
    ci = _run(tmp_path, body, ci=True)
    assert ci.returncode in (1, 2), ci.stdout
    assert "no_such_module_anywhere" in ci.stdout


def test_a_swallowed_attempt_to_leave_the_machine_fails(tmp_path: Path) -> None:
    body = (
        "import contextlib, socket\n"
        "def test_number():\n"
        "    with contextlib.suppress(Exception), socket.socket() as s:\n"
        "        s.settimeout(0.01)\n"
        "        s.connect(('192.0.2.1', 80))\n"
        "def test_name():\n"
        "    with contextlib.suppress(Exception):\n"
        "        socket.getaddrinfo('example.invalid', 80)\n"
        "def test_loopback():\n"
        "    with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "        socket.create_connection(('localhost', server.getsockname()[1])).close()\n"
        "        socket.create_connection(server.getsockname()).close()\n"
    )
    done = _run(tmp_path, body, ci=False)
    assert "3 passed, 2 errors" in done.stdout, done.stdout
    assert "192.0.2.1" in done.stdout
    assert "example.invalid" in done.stdout


def test_a_process_left_behind_is_killed_and_fails_the_run(tmp_path: Path) -> None:
    body = (
        "import pathlib, subprocess, sys\n"
        "def test_a():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'pid').write_text(str(child.pid))\n"
    )
    done = _run(tmp_path, body, ci=False)
    assert done.returncode == 1, done.stdout
    assert "LEFT BEHIND" in done.stdout
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_each_test_has_a_short_home_of_its_own_and_no_account(tmp_path: Path) -> None:
    body = (
        "import os\n"
        "seen = []\n"
        "def check():\n"
        "    seen.append(os.environ['NBPROV_HOME'])\n"
        "    assert len(os.environ['NBPROV_HOME']) < 40\n"
        "    assert not os.path.exists(os.environ['NBPROV_HOME'])\n"
        "    assert 'AWS_SECRET_ACCESS_KEY' not in os.environ\n"
        "def test_a(): check()\n"
        "def test_b(): check(); assert len(set(seen)) == 2\n"
    )
    os.environ["AWS_SECRET_ACCESS_KEY"] = "not-a-key"
    try:
        done = _run(tmp_path, body, ci=False)
    finally:
        del os.environ["AWS_SECRET_ACCESS_KEY"]
    assert done.returncode == 0, done.stdout


def test_property_tests_are_repeatable_in_ci(tmp_path: Path) -> None:
    body = (
        "from hypothesis import given, strategies as st, settings\n"
        "@given(st.integers())\n"
        "def test_a(n): assert settings.default.derandomize and settings.default.deadline is None\n"
    )
    assert _run(tmp_path, body, ci=True).returncode == 0
    assert _run(tmp_path, body, ci=False).returncode == 1
