"""Secrets in a kernel's environment and in a spec are searched for in all places where they must
not be."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from homes import new_home
from kernels import Kernel, new_kernel

SECRET = "canary-7d1f-of-the-spec"
JOB, CELL = "canary-7d1f-of-a-job", "canary-7d1f-of-a-cell"
GIVEN = {"JOB_TOKEN": JOB, "CELL_TOKEN": CELL}
"""Values in the kernel's environment that the test passes on by name."""
FOREIGN = {
    "AWS_ACCESS_KEY_ID": "AKIACANARY7D1F",
    "AWS_SECRET_ACCESS_KEY": "canary-7d1f-aws",
    "RUNPOD_API_KEY": "canary-7d1f-runpod",
    "LAMBDA_API_KEY": "canary-7d1f-lambda",
    "HF_TOKEN": "canary-7d1f-huggingface",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "canary-7d1f-google",
    "SSH_AUTH_SOCK": "/nowhere/canary-7d1f-agent",
}
"""Other values of a user in the kernel's environment, which no spec names."""

KEPT = "written-by-the-users-own-code"
"""A file on the machines that holds the spec's secret because its setup wrote it."""

PROVISION = f"""%%provision dev --yes --wait
resources: {{cpus: 2, infra: local}}
num_nodes: 2
secrets: {{TOKEN: {SECRET}}}
outputs: [results]
setup: |
  test ${{#TOKEN}} = {len(SECRET)} && echo it is there
  echo setup has $TOKEN | tee {KEPT}
  sleep 0.3
run: |
  echo the token is $TOKEN
  echo and wrongly so: $TOKEN >&2
  sleep 0.3
"""

PRINTING = """%%on dev --env CELL_TOKEN
import os, sys, time
token = os.environ["CELL_TOKEN"]
print("the cell has", token)
print("in two pieces", token[:12], end="", flush=True)
time.sleep(0.3)
print(token[12:], file=sys.stdout)
print("wrongly so:", token, file=sys.stderr)
display({"text/html": f"<b>{token}</b>", "text/plain": f"shown: {token}"}, raw=True)
token"""

STORY = (
    PROVISION,
    "import nbprov; _code = nbprov.cluster('dev').wait_job('run')",
    "%%on dev\nimport os\n"
    "print(sorted(k for k in os.environ if 'TOKEN' in k or 'KEY' in k or 'AUTH' in k))",
    "%%on dev --bash --nodes all\nenv | grep -c canary; ssh-add -l 2>&1 | head -1",
    "%nbprov jobs dev",
    "%nbprov logs dev run",
    "%nbprov logs dev setup",
    "%nbprov log dev",
    "%nbprov jobs dev submit --name train --env JOB_TOKEN -- echo the job has $JOB_TOKEN; "
    "mkdir -p results; echo 1 >results/a.txt;"
    " printf 'in two pieces %.12s' $JOB_TOKEN; sleep 0.5; echo $JOB_TOKEN | tail -c +13",
    "%nbprov logs dev train -f",
    "nbprov.cluster('dev').job('train')",
    f"%%on dev --env CELL_TOKEN\nimport os\nassert len(os.environ['CELL_TOKEN']) == {len(CELL)}",
    PRINTING,
    f"%%on dev --bash --env CELL_TOKEN\n"
    f"test ${{#CELL_TOKEN}} = {len(CELL)}; echo the script has $CELL_TOKEN; echo wrongly so: "
    f"$CELL_TOKEN >&2",
    f"%%on dev --bash\ncat {KEPT}",
    "sent = 5",
    "%%on dev -i sent -o back\nback = sent + 1",
    "%nbprov cells dev",
    "%nbprov outputs dev",
    "%nbprov history",
    "%nbprov dashboard",
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


FAILING = (
    "%%on dev\nraise ValueError(f'refused: {token}')",
    "%%on dev --bash --env CELL_TOKEN\necho failed with $CELL_TOKEN >&2; exit 3",
)

READING = (
    "%nbprov cells dev",
    *(f"%nbprov logs dev {job}" for job in ("setup", "run", "train")),
    "%nbprov logs dev run --node 1",
    "%nbprov logs dev train --save saved.log",
    "print(nbprov.cluster('dev').logs('train'))",
    f"%%on dev --bash\ncat {KEPT}",
    "%%on dev\ntoken",
    "%nbprov history",
)
"""What a kernel runs that was given no secret, and so knows none to mask."""


class CommandLines(threading.Thread):
    """Checks every command line on this computer, again and again, for what must not be in one."""

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

    def __init__(self, home: Path, kernel: Kernel, reader: Kernel, lines: CommandLines) -> None:
        self.home, self.lines = home, lines
        both = [*kernel.messages, *reader.messages]
        self.outputs = [m for m in both if m["msg_type"] not in ("execute_input", "status")]
        self.read_later = "".join(json.dumps(m["content"], default=str) for m in reader.messages)
        self.before_the_end = {path: path.read_bytes() for path in _files(home)}
        self.machines = sorted(path for path in home.glob("local/**/home") if path.is_dir())


def _printed(played: Played) -> str:
    """Return what all cells printed, joined."""
    return "".join(m["content"]["text"] for m in played.outputs if m["msg_type"] == "stream")


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with new_home() as home, new_kernel(home, **FOREIGN, **GIVEN) as kernel:
        lines = CommandLines()
        lines.start()
        try:
            for cell in STORY:
                kernel.run(cell)
            for cell in FAILING:
                kernel.run(cell, ok=False)
            with new_kernel(home) as reader:
                for cell in ("import nbprov", *READING):
                    reader.run(cell)
                for id in dict.fromkeys(
                    re.findall(
                        r"\b(?:cell|bash)-[0-9a-f]{12}\b",
                        reader.run("%nbprov cells dev").everything,
                    )
                ):
                    reader.finish(
                        reader.send(f"%nbprov cells dev {id}")
                    )  # like the cell itself, it may have failed
                    reader.run(f"%nbprov cells dev {id} --save saved-{id}")
                lines.end()
                yield Played(home, kernel, reader, lines)
        finally:
            lines.end()
        kernel.run("%nbprov down --all")


def where(played: Played, value: str) -> list[str]:
    """Return the files of the home, with the machines' disks, that contain a value."""
    return sorted(
        str(path.relative_to(played.home))
        for path, data in played.before_the_end.items()
        if value.encode() in data
    )


def test_the_story_was_real(played: Played) -> None:
    shown = json.dumps(played.outputs, default=str)
    assert "it is there" in shown
    assert "the token is ***" in shown
    assert played.lines.looks > 20
    assert "the job has ***" in shown
    assert "in two pieces ***" in _printed(played)
    assert any(path.match("jobs/*/train-1.log") for path in played.before_the_end)
    assert len(played.machines) == 2
    assert any("ledger" in path.name for path in played.before_the_end)


@pytest.mark.parametrize("value", [SECRET, JOB, CELL])
def test_a_secret_is_in_no_output(played: Played, value: str) -> None:
    assert value not in json.dumps(played.outputs, default=str)
    assert value not in _printed(played)


def test_a_secret_is_in_no_command_line(played: Played) -> None:
    assert played.lines.found == set()


@pytest.mark.parametrize("value", [SECRET, JOB, CELL])
def test_a_secret_is_in_no_file_but_the_one_that_its_users_own_code_wrote(
    played: Played, value: str
) -> None:
    found = where(played, value)
    assert [path for path in found if not path.endswith(f"/home/{KEPT}")] == []
    assert len(found) == (2 if value == SECRET else 0), "one on each node"


def test_a_kernel_that_knows_no_secret_reads_of_all_that_was_printed_and_sees_none(
    played: Played,
) -> None:
    words = (
        "setup has",
        "the token is",
        "and wrongly so:",
        "the job has",
        "in two pieces",
        "the cell has",
        "wrongly so:",
        "shown:",
        "refused:",
    )
    for said in (*words, "the script has", "failed with"):
        assert f"{said} ***" in played.read_later
    assert "<b>***</b>" in played.read_later
    assert "canary" not in played.read_later
    assert "the job has ***" in (played.home.parent / "saved.log").read_text()
    saved = [path.read_text() for path in played.home.parent.glob("saved-*")]
    assert any("the cell has ***" in text for text in saved)
    assert not [text for text in saved if "canary" in text]


def test_what_is_kept_here_is_for_its_owner_alone(played: Played) -> None:
    kept = [
        path
        for path in played.before_the_end
        if path.relative_to(played.home).parts[0] in ("jobs", "keys")
    ]
    kept += [
        path
        for path in played.before_the_end
        if path.name in ("gang.json", "id_ed25519") and "/.nbprov/" in str(path)
    ]
    assert {path.name for path in kept} >= {
        "train-1.log",
        "gang.json",
        "id_ed25519",
        "inner_ed25519",
    }
    assert [str(path) for path in kept if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("name", FOREIGN)
def test_what_the_spec_does_not_name_goes_nowhere(played: Played, name: str) -> None:
    value = FOREIGN[name]
    assert where(played, value) == []
    assert value not in json.dumps(played.outputs, default=str)


def test_no_private_key_of_this_computer_is_on_a_machine(played: Played) -> None:
    keys = [path for path in _files(played.home / "keys") if b"PRIVATE KEY" in path.read_bytes()]
    assert keys
    # The inner key pair belongs to the cluster, whose machines use it to log in to each other only.
    secret_lines = {
        path: path.read_text().splitlines()[2]
        for path in keys
        if "host" not in path.name and "inner" not in path.name
    }
    assert secret_lines
    for path, line in secret_lines.items():
        found = [place for place in where(played, line) if not place.startswith("keys/")]
        assert found == [], path.name
