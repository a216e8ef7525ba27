"""Secrets: values planted in a kernel's environment and in a spec are looked for wherever they must not be, while a whole story is played."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kernels import Kernel, new_home, new_kernel

SECRET = "canary-7d1f-of-the-spec"
FOREIGN = {
    "AWS_ACCESS_KEY_ID": "AKIACANARY7D1F",
    "AWS_SECRET_ACCESS_KEY": "canary-7d1f-aws",
    "RUNPOD_API_KEY": "canary-7d1f-runpod",
    "LAMBDA_API_KEY": "canary-7d1f-lambda",
    "HF_TOKEN": "canary-7d1f-huggingface",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "canary-7d1f-google",
    "SSH_AUTH_SOCK": "/nowhere/canary-7d1f-agent",
}
"""What a kernel's environment holds of a user's own; no spec names any of it."""

PROVISION = f"""%%provision dev --yes --wait
resources: {{cpus: 2, infra: local}}
num_nodes: 2
secrets: {{TOKEN: {SECRET}}}
setup: |
  test ${{#TOKEN}} = {len(SECRET)} && echo it is there
  sleep 0.3
run: |
  echo the token is $TOKEN
  sleep 0.3
"""

STORY = (
    PROVISION,
    "import nbprov; _code = nbprov.cluster('dev').wait_job('run')",
    "%%on dev\nimport os\nprint(sorted(k for k in os.environ if 'TOKEN' in k or 'KEY' in k or 'AUTH' in k))",
    "%%on dev --bash --nodes all\nenv | grep -c canary; ssh-add -l 2>&1 | head -1",
    "%nbprov jobs dev",
    "%nbprov logs dev run",
    "%nbprov logs dev setup",
    "%nbprov log dev",
    "%nbprov ssh dev",
    "%nbprov ssh --config",
    "import pathlib; pathlib.Path('src').mkdir(); pathlib.Path('src/a').write_text('a')",
    "%nbprov sync dev src --push",
    "%nbprov tunnel dev 6006",
    "%clusters",
    "nbprov.cluster('dev')",
    "nbprov.cluster('dev').view()",
    "%nbprov attempts",
)


INNER = "inner"
"""The key by which nodes log in to each other: made for this one cluster, and of no use elsewhere."""


class CommandLines(threading.Thread):
    """Looks at every command line on this computer, again and again, for what must not stand in one."""

    def __init__(self) -> None:
        super().__init__(name="command lines", daemon=True)
        self.found: set[str] = set()
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.looks += 1
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    if "canary-7d1f" in line or "CANARY7D1F" in line:
                        self.found.add(line[:300])

    def end(self) -> None:
        self._over.set()
        self.join()


class Played:
    """What a story left to be searched."""

    def __init__(self, home: Path, kernel: Kernel, lines: CommandLines) -> None:
        self.home, self.lines = home, lines
        self.outputs = [m for m in kernel.messages if m["msg_type"] not in ("execute_input", "status")]
        self.before_the_end = {path: path.read_bytes() for path in _files(home)}
        self.machines = sorted(path for path in home.glob("local/**/home") if path.is_dir())


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with new_home() as home, new_kernel(home, **FOREIGN) as kernel:
        lines = CommandLines()
        lines.start()
        try:
            for cell in STORY:
                kernel.run(cell)
        finally:
            lines.end()
        yield Played(home, kernel, lines)
        kernel.run("%nbprov down --all")


def where(played: Played, value: str) -> list[str]:
    """The files of the home, machines' disks among them, that hold a value."""
    return sorted(str(path.relative_to(played.home)) for path, data in played.before_the_end.items() if value.encode() in data)


def test_the_story_was_real(played: Played) -> None:
    shown = json.dumps(played.outputs, default=str)
    assert "it is there" in shown
    assert "the token is ***" in shown
    assert played.lines.looks > 20
    assert len(played.machines) == 2
    assert any("ledger" in path.name for path in played.before_the_end)


def test_a_secret_is_in_no_output(played: Played) -> None:
    assert SECRET not in json.dumps(played.outputs, default=str)


def test_a_secret_is_in_no_command_line(played: Played) -> None:
    assert played.lines.found == set()


def test_a_secret_is_in_no_file_but_the_log_of_the_job_that_printed_it(played: Played) -> None:
    found = where(played, SECRET)
    assert all("/home/.nbprov/tasks/run/" in path for path in found), found
    assert len(found) == 2, "each node's own journal of what its user printed"


@pytest.mark.parametrize("name", FOREIGN)
def test_what_the_spec_does_not_name_goes_nowhere(played: Played, name: str) -> None:
    value = FOREIGN[name]
    assert where(played, value) == []
    assert value not in json.dumps(played.outputs, default=str)


def test_no_private_key_of_this_computer_is_on_a_machine(played: Played) -> None:
    keys = [path for path in _files(played.home / "keys") if b"PRIVATE KEY" in path.read_bytes()]
    assert keys
    secret_lines = {path: path.read_text().splitlines()[2] for path in keys if not path.name.startswith(INNER) and "host" not in path.name}
    assert secret_lines
    for path, line in secret_lines.items():
        found = [place for place in where(played, line) if not place.startswith("keys/")]
        assert found == [], path.name
