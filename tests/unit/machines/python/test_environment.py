"""What nodes say about their Python is read with care and compared; differences are named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from shell_machine import shell_node

from nbprov.machines.python import environment
from nbprov.machines.python.environment import (
    EnvironmentRecord,
    PythonDiffers,
    PythonTimeout,
    check_same,
    follow_node,
    job_script,
    read_request,
    same_words,
)
from nbprov.machines.python.requirement_files import PythonSource
from nbprov.machines.setup.setup_jobs import SetupFailed, SetupSteps
from nbprov.model.errors import NbprovError
from nbprov.on_machine import python_env
from nbprov.on_machine.uv import TOO_LONG
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.agent.messages import OutputPiece, TaskInfo


def _record(**changes: object) -> str:
    record = {
        "key": "k",
        "python": "3.12.4",
        "implementation": "cpython",
        "lock": "six==1\n",
        "packages": {"six": "1.16.0", "pip": "26.3"},
    }
    return json.dumps({**record, **changes})


def test_equal_nodes_are_said_in_a_line() -> None:
    made = [EnvironmentRecord.of(node, _record()) for node in range(3)]
    check_same(made)
    assert same_words(made) == "python: 3.12.4 with 2 packages, the same on 3 nodes"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.12.5"}, "node 1 has cpython 3.12.5, the head cpython 3.12.4"),
        (
            {"packages": {"six": "1.17.0", "pip": "26.3"}},
            "node 1 has other packages than the head: six 1.17.0 instead of 1.16.0",
        ),
        ({"packages": {"six": "1.16.0"}}, "pip missing instead of 26.3"),
        ({"packages": {"six": "1.16.0", "pip": "26.3", "x": "1"}}, "x 1 instead of none"),
        ({"packages": {f"p{n}": "1" for n in range(9)}}, "and 6 more"),
    ],
)
def test_a_difference_is_an_error_that_names_it(changes: dict[str, object], words: str) -> None:
    with pytest.raises(PythonDiffers) as caught:
        check_same(
            [EnvironmentRecord.of(0, _record()), EnvironmentRecord.of(1, _record(**changes))]
        )
    assert words in caught.value.message
    assert caught.value.code == "python.differs"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        _record(packages=[]),
        _record(packages={"six": 1}),
        _record(python=None),
        _record(python="3.12\x1b[2J"),
        _record(packages={"six\n": "1"}),
        _record(packages={"six": "1" * 500}),
        _record(lock=5),
    ],
)
def test_what_is_no_record_is_not_believed(text: str) -> None:
    with pytest.raises(PythonDiffers) as caught:
        EnvironmentRecord.of(2, text)
    assert caught.value.code == "python.no-record"
    assert "\x1b" not in caught.value.message


def test_the_job_is_one_text_that_holds_the_request_as_data() -> None:
    source = PythonSource(
        "requirements", "3.12", {"requirements.in": "six\nNBPROV_END_OF_PROGRAM\n'\"\\$HOME `id`\n"}
    )
    script = job_script(source.request(lock="a==1\n", python="3.12.4"))
    lines = script.splitlines()
    assert [n for n, line in enumerate(lines) if line == "NBPROV_END_OF_PROGRAM"] == [
        len(lines) - 1
    ]
    compile("\n".join(lines[1:-1]), "job", "exec")


class Agent:
    """An agent whose job prints one line, then hangs or ends."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code, self.cancelled = exit_code, list[str]()

    async def job_output(self, id: str) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(1, 0.0, "stdout", "uv pip sync\n")
        if self.exit_code is None:
            await asyncio.Event().wait()

    async def task(self, id: str) -> TaskInfo:
        return TaskInfo(id, "job", "python", "ended", exit_code=self.exit_code)

    async def cancel_job(self, id: str) -> None:
        self.cancelled.append(id)


@pytest.mark.parametrize(
    ("exit_code", "error", "words"),
    [
        (
            None,
            PythonTimeout,
            "python on node 1 is not made after 0 min, and was ended; its last words:\n"
            "    uv pip sync",
        ),
        (
            TOO_LONG,
            PythonTimeout,
            "python on node 1 took too long; its last words:\n    uv pip sync",
        ),
        (1, SetupFailed, "python ended with code 1 on node 1\n    uv pip sync"),
    ],
)
def test_what_takes_too_long_is_ended_and_says_what_it_was_doing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exit_code: int | None,
    error: type[NbprovError],
    words: str,
) -> None:
    if exit_code is None:  # its answers come at once, so that the time cannot run out during one
        monkeypatch.setattr(environment, "MAKING_SECONDS", 0.3)
    agent, node = Agent(exit_code), shell_node(tmp_path, 1)
    node.agent = agent  # type: ignore[assignment]
    live = LiveCluster("run", "dev", None, None, [shell_node(tmp_path), node])  # type: ignore[arg-type]
    told: list[str] = []
    steps = SetupSteps(live, {}, None, lambda text, line="": told.append(text), told.append)  # type: ignore[arg-type]
    with pytest.raises(error) as caught:
        asyncio.run(follow_node(steps, node, "python-2"))
    assert words in caught.value.message
    assert agent.cancelled == (["python-2"] if exit_code is None else [])
    assert told == ["python: [1] uv pip sync"]
    if error is PythonTimeout:
        assert caught.value.code == "python.timeout"
        assert "run the cell again" in caught.value.hint


def test_a_node_says_what_its_environment_was_made_from(tmp_path: Path) -> None:
    source = PythonSource(
        "project", "3.12", {"uv.lock": "version = 1\n", "pyproject.toml": "[project]\n"}
    )
    place = tmp_path / ".nbprov" / "python"
    place.mkdir(parents=True)
    python_env.keep_request(source.request(lock="six==1\n", python="3.12.4"), str(place))
    assert asyncio.run(read_request(shell_node(tmp_path))) == source


@pytest.mark.parametrize(
    "change",
    [
        {"key": "other"},
        {"files": {"uv.lock": "another\n"}},
        {"files": []},
        {"files": {"uv.lock": 1}},
        None,
    ],
)
def test_a_node_that_does_not_say_it_is_not_believed(
    tmp_path: Path, change: dict[str, object] | None
) -> None:
    source = PythonSource("project", "3.12", {"uv.lock": "version = 1\n"})
    place = tmp_path / ".nbprov" / "python"
    place.mkdir(parents=True)
    if change is not None:
        python_env.keep_request({**source.request(), **change}, str(place))
    with pytest.raises(PythonDiffers, match="node 3 does not say") as caught:
        asyncio.run(read_request(shell_node(tmp_path, 3)))
    assert caught.value.code == "python.no-record"
