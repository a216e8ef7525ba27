"""What the agent does of a script.

The same as the shell would by itself, with nothing of it in a file or on a command line.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nbprov.on_machine.agent.tasks import scripts
from nbprov.on_machine.agent.tasks.task import Task

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="agents run on machines with a POSIX shell"
)

SCRIPTS = {
    "quotes": "printf '%s|' \"a  b\" 'c\\n' \"$0\"; exit 3",
    "blanks": '\n\n   x="  in  "\n\techo "[$x]"  \n\n',
    "here document": "cat <<'E'\n  leading\\tand $HOME\nE\n",
    "no trace": 'echo "${_nbprov-none}"; set | grep -c "^IFS="',
    "unicode": "echo é漢字 '\U0001f40d' | cat",
    "fails": "set -e; false; echo no",
    "pipe": "false | true; echo $?",
    "reads": 'if read line; then echo "got $line"; else echo nothing; fi',
    "long": f"x={'y' * 300_000}\necho ${{#x}}\n",
    "empty": "",
}


def run(script: str, name: str) -> tuple[int, str]:
    command, descriptor = scripts.script_command(script, name, 0o022)
    try:
        assert not script or script not in " ".join(command)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(descriptor,),
            start_new_session=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(descriptor)
    assert done.stderr == b""
    return done.returncode, done.stdout.decode()


@pytest.fixture(params=["bash", "sh"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine's shell: without bash it is what `sh` is there."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"there is no {request.param} here")
    if request.param == "sh":
        monkeypatch.setattr(scripts.shutil, "which", lambda name: None)
    return found


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_script_does_what_the_shell_makes_of_it(shell: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(SCRIPTS[what], encoding="utf-8")
    by_itself = [shell, "-c", f'eval "$(cat {tmp_path}/script)"', "name"]
    plain = subprocess.run(
        by_itself, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    assert run(SCRIPTS[what], "name") == (plain.returncode, plain.stdout.decode())


def test_zeros_are_dropped_and_open_files_are_not_passed_on(shell: str) -> None:
    assert run("a=\0001\0; echo $a", "name") == (0, "1\n")
    if shell.endswith("bash") and os.path.isdir("/proc/self/fd"):
        assert run("cd /proc/self/fd && echo *", "name")[1].split()[:3] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("script", "env"), [("echo \ud800", {}), ("true", {"X": "\ud800"}), ("true", {"a=b": "\0"})]
)
def test_what_no_shell_can_run_has_ended_and_says_why(
    script: str, env: dict[str, str], tmp_path: Path
) -> None:
    async def run_it() -> Task:
        meta = {"id": "t1", "name": "t1", "kind": "job", "state": "queued"}
        task = Task(tmp_path / "t1", meta, 1 << 20)
        await scripts.ScriptRunner(tmp_path, 0o022).run_task(task, script, env, str(tmp_path))
        return task

    task = asyncio.run(run_it())
    assert not task.is_live, "a live job keeps the guards from ending the machine"
    assert (task.meta["state"], task.meta["exit_code"]) == ("ended", 127)
