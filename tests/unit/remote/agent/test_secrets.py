"""Secrets are blotted out on the machine.

The agent's journal holds none, and whoever reads it later sees none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbprov.model.secret import Secret
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import OutputPiece
from nbprov.remote.agent.output_stream import OutputStream

pytestmark = pytest.mark.machine

TOKEN, KEY = "canary-3b9a-of-a-token", "canary-3b9a-begin\nmiddle of it\ncanary-3b9a-end"
GIVEN = {"TOKEN": Secret(TOKEN), "KEY": Secret(KEY), "MODE": "fast"}

SCRIPT = r"""
echo "whole $TOKEN and $MODE"
printf 'pieces %.9s' "$TOKEN"; sleep 0.5; printf '%s' "${TOKEN:9:3}"; sleep 0.3; echo "${TOKEN:12}!"
echo "lines $KEY."
echo "oops $TOKEN" >&2
printf 'pieces %.9s' "$TOKEN" >&2; sleep 0.5; echo "${TOKEN:9}!" >&2
for n in $(seq 2000); do echo "flood $TOKEN"; done
printf 'the last %s' "$TOKEN"
"""

CELL = r"""
import os, sys, time
token = os.environ["TOKEN"]
print("whole", token, os.environ["MODE"])
print("lines", os.environ["KEY"])
for stream in (sys.stdout, sys.stderr):
    print("pieces", token[:9], end="", file=stream, flush=True)
    time.sleep(0.5)
    display({"text/html": f"<b>{token}</b>", "application/json": {token: [token]}}, raw=True)
    print(token[9:] + "!", file=stream, flush=True)
token
"""


async def _all(following: OutputStream) -> list[OutputPiece]:
    return [output async for output in following]


def _text(outputs: list[OutputPiece], *kinds: str) -> str:
    return "".join(output.text for output in outputs if output.kind in kinds)


def _holding(machine: Any, *values: str) -> list[Path]:
    """Files of the machine's disk that hold one of the values, or a part of it that would be
    enough.
    """
    files = [path for path in machine.home.rglob("*") if path.is_file()]
    assert any("/tasks/" in str(path) for path in files)
    return [path for path in files if any(value.encode() in path.read_bytes() for value in values)]


@pytest.fixture(scope="module")
def canaries() -> tuple[str, ...]:
    """What must be nowhere: the values, and the rest of each, should its beginning have been taken
    for something else.
    """
    return TOKEN, "canary-3b9a", TOKEN[9:], "middle of it"


async def test_a_script_may_print_its_secrets_and_the_journal_holds_none(
    shared_machine: Any, agent_on: Any, canaries: tuple[str, ...]
) -> None:
    async with agent_on(shared_machine) as client:
        await client.run_job(SCRIPT, name="setup", id="script", env=GIVEN)
        assert (await client.job_output("script").wait()).status == "ok"
        await client.submit_job("echo a job of $TOKEN", "submitted", "n", env=GIVEN)
        assert (await client.job_output("submitted").wait()).status == "ok"
    async with agent_on(shared_machine) as another:
        outputs = await _all(another.job_output("script"))
        assert (
            _text(outputs, "stdout").replace("flood ***\n", "")
            == "whole *** and fast\npieces ***!\nlines ***.\nthe last ***"
        )
        assert _text(outputs, "stdout").count("flood ***\n") == 2000
        assert _text(outputs, "stderr") == "oops ***\npieces ***!\n"
        assert _text(await _all(another.job_output("submitted")), "stdout") == "a job of ***\n"
    assert _holding(shared_machine, *canaries) == []


async def test_a_cell_may_print_its_secrets_and_the_journal_holds_none(
    shared_machine: Any, agent_on: Any, canaries: tuple[str, ...]
) -> None:
    async with agent_on(shared_machine) as client:
        await _all(await client.cell(CELL, id="cell", env=GIVEN))
        # The value lives on in the kernel, and what a later cell says of it is blotted out without
        # its being given again.
        raised = await _all(await client.cell("raise ValueError(f'no {token}')", id="raised"))
        (error,) = [output for output in raised if output.kind == "error"]
        assert error.content["evalue"] == "no ***"
        assert any("ValueError" in line and "***" in line for line in error.content["traceback"])
        while not (
            told := await client.kernels.inspect("token", 5, deadline=30)
        ):  # a busy machine is late with it
            pass
        assert "***" in str(told)
    async with agent_on(shared_machine) as another:
        outputs = await _all(another.job_output("cell"))
        assert _text(outputs, "stream") == "whole *** fast\nlines ***\npieces ***!\npieces ***!\n"
        rich = [output.content["data"] for output in outputs if output.kind == "display_data"]
        assert rich == [{"text/html": "<b>***</b>", "application/json": {"***": ["***"]}}] * 2
        assert [o.content["data"] for o in outputs if o.kind == "execute_result"] == [
            {"text/plain": "'***'"}
        ]
    said = f"{outputs}{raised}{told}"
    assert not [value for value in canaries if value in said]
    assert _holding(shared_machine, *canaries) == []


async def test_what_one_task_was_given_is_blotted_out_of_a_later_one(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        await (
            await client.shell(
                'umask 077; echo "$LATER" >"$HOME/kept"',
                env={"LATER": Secret("hf_of-an-earlier-task")},
            )
        ).wait()
        following = await client.shell('cat "$HOME/kept"; rm "$HOME/kept"')
        assert _text(await _all(following), "stdout") == "***\n"
        following = await client.shell(
            "echo hf_of-an-earlier-task, $SHORT", env={"SHORT": Secret("abc")}
        )
        assert _text(await _all(following), "stdout") == "***, abc\n"
    assert _holding(shared_machine, "hf_of-an-earlier-task") == []


async def test_a_prompt_that_could_begin_a_secret_is_shown_and_the_rest_still_blotted_out(
    shared_machine: Any, agent_on: Any
) -> None:
    shell = (
        "printf 'continue? [y/h'; until [ -e \"$HOME/go-1\" ]; do sleep 0.02; done; echo"
        " 'f_a-prompt-or-not]'"
    )
    cell = (
        "import os, time\nprint('continue? [y/h', end='', flush=True)\nwhile not"
        " os.path.exists('go-2'): time.sleep(0.02)\n"
    )
    async with agent_on(shared_machine) as client:
        both = [
            await client.shell(shell, env={"PROMPTED": Secret("hf_a-prompt-or-not")}),
            await client.cell(cell + "print('f_a-prompt-or-not]')"),
        ]
        for number, following in enumerate(both, 1):
            shown = ""
            async for output in following:
                shown += output.text
                if shown == "continue? [y/h":
                    (shared_machine.home / f"go-{number}").touch()
            assert shown == "continue? [y/h***]\n"


async def test_what_nbprov_itself_reads_is_not_spoilt(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        await (
            await client.shell(
                ":", env={"LOGIN": Secret("python"), "LONG": Secret("a-secret-in-the-data")}
            )
        ).wait()
        asked = "echo '{\"python\": 1}'; echo python >&2"
        outputs = await _all(await client.shell(asked, verbatim=True))
        assert (_text(outputs, "stdout"), _text(outputs, "stderr")) == ('{"python": 1}\n', "***\n")
        # A kernel's own threads may print between the lines of data, so that only what no data
        # holds by chance is blotted out.
        outputs = await _all(
            await client.cell("print('cHl0python8=', 'a-secret-in-the-data')", verbatim=True)
        )
        assert _text(outputs, "stream") == "cHl0python8= ***\n"
        assert _text(await _all(await client.shell(asked)), "stdout") == '{"***": 1}\n'


async def test_more_secrets_than_are_kept_are_refused(shared_machine: Any, agent_on: Any) -> None:
    client: AgentClient
    async with agent_on(shared_machine) as client:
        with pytest.raises(AgentError) as refused:
            await client.run_job(
                "true", id="many", env={f"S{n}": Secret(f"secret-{n}") for n in range(1001)}
            )
        assert refused.value.code == "agent.too-many-secrets"
        assert "many" not in {task.id for task in await client.tasks()}
