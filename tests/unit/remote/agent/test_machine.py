"""The agent on a real machine: cells, shells and jobs, and lines that break in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbprov.model.secret import Secret
from nbprov.on_machine.agent.tasks.store import TASK_JOURNAL_BYTES
from nbprov.remote.agent.archive import Archive, agent_archive
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import OutputPiece
from nbprov.remote.agent.output_stream import OutputStream
from nbprov.remote.errors import RemoteError
from nbprov.remote.ssh.connection import Connection

pytestmark = pytest.mark.machine


async def _all(following: OutputStream) -> list[OutputPiece]:
    return [output async for output in following]


def _text(outputs: list[OutputPiece], kind: str = "stdout") -> str:
    return "".join(output.text for output in outputs if output.kind == kind)


def _cut(machine: Any) -> None:
    """End every ssh session of the machine from its side, as a dying line does."""
    for process in psutil.Process(machine.process.pid).children():
        process.kill()


async def test_variables_live_on_between_cells_and_output_is_rich(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        first = await _all(await client.cell("x = 41\nprint('said')\nx + 1"))
        assert [output.kind for output in first] == ["stream", "execute_result", "end"]
        assert first[0].text == "said\n"
        assert first[1].content["data"]["text/plain"] == "42"
        assert first[2].content["status"] == "ok"
        code = "class Rich:\n  def _repr_html_(self): return f'<b>{x}</b>'\ndisplay(Rich())"
        second = await _all(await client.cell(code))
        assert second[0].kind == "display_data"
        assert second[0].content["data"]["text/html"] == "<b>41</b>"
        assert second[-1].content["execution_count"] == first[-1].content["execution_count"] + 1


async def test_an_error_has_its_name_and_traceback_and_the_kernel_lives_on(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        outputs = await _all(await client.cell("kept = 7\n1/0"))
        (error,) = [output for output in outputs if output.kind == "error"]
        assert error.content["ename"] == "ZeroDivisionError"
        assert any("1/0" in line or "division" in line for line in error.content["traceback"])
        assert outputs[-1].content["status"] == "error"
        again = await _all(await client.cell("kept"))
        assert again[0].content["data"]["text/plain"] == "7"


async def test_a_cell_that_asks_for_input_fails_clearly(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        outputs = await _all(await client.cell("input('name? ')"))
        assert outputs[0].kind == "error"
        assert "does not support input" in outputs[0].content["evalue"]


async def test_interrupt_reaches_a_busy_cell_within_a_second(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        following = await client.cell(
            "print('up', flush=True)\nimport time\nwhile True: time.sleep(0.1)"
        )
        interrupted = 0.0
        outputs = []
        async for output in following:
            outputs.append(output)
            if output.kind == "stream":
                interrupted = time.monotonic()
                assert await client.kernels.interrupt()
        assert time.monotonic() - interrupted < 1.0
        assert [output.content["ename"] for output in outputs if output.kind == "error"] == [
            "KeyboardInterrupt"
        ]


async def test_a_kernel_that_dies_says_so_and_the_next_cell_gets_a_new_one(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        await _all(await client.cell("x = 1", "fragile"))
        outputs = await _all(
            await client.cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "fragile")
        )
        (error,) = [output for output in outputs if output.kind == "error"]
        assert error.content["ename"] == "KernelDied"
        assert "memory" in error.content["evalue"]
        after = await _all(await client.cell("'x' in globals()", "fragile"))
        assert "its variables are gone" in _text(after, "stream")
        assert after[1].content["data"]["text/plain"] == "False"
        await client.kernels.restart("fragile")
        fresh = await _all(await client.cell("1", "fragile"))
        assert (fresh[-1].content["status"], fresh[-1].content.get("execution_count")) == (
            "ok",
            1,
        ), [output.content for output in fresh]


async def test_cells_of_one_kernel_wait_for_each_other_and_kernels_do_not(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        go = shared_machine.home / "go-cells"
        wait = (
            f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\norder"
            " = ['first']"
        )
        first = await client.cell(wait)
        second = await client.cell("order + ['second']")
        other = await _all(await client.cell("'elsewhere'", "other"))
        assert other[0].content["data"]["text/plain"] == "'elsewhere'"
        assert (await client.task(second.id)).state == "queued"
        go.touch()
        await first.wait()
        assert (await _all(second))[0].content["data"]["text/plain"] == "['first', 'second']"
        await client.kernels.restart("other")


async def test_a_shell_streams_both_its_voices_and_tells_its_exit_code(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        go = shared_machine.home / "go-shell"
        script = (
            f'echo one; echo bad >&2; until [ -e "{go}" ]; do sleep 0.02; done; printf end; exit 3'
        )
        outputs = []
        async for output in await client.shell(script):
            outputs.append(output)
            if len(outputs) == 2:
                go.touch()
        assert _text(outputs) == "one\nend"
        assert _text(outputs, "stderr") == "bad\n"
        assert outputs[-1].content == {"status": "failed", "exit_code": 3}


async def test_a_shell_ends_though_it_left_a_server_running(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        outputs = await _all(await client.shell("sleep 600 & echo started"))
        assert _text(outputs) == "started\n"
        assert outputs[-1].content["exit_code"] == 0


async def test_a_shells_missing_folder_is_named(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        outputs = await _all(await client.shell("true", cwd="~/not/there"))
        assert "not/there does not exist" in _text(outputs, "stderr")
        assert outputs[-1].content["exit_code"] == 127


async def test_job_output_is_replayed_from_any_number(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        job = await client.run_job("seq 1 200; exit 4", name="count")
        whole = await _all(client.job_output(job.id))
        assert _text(whole).split() == [str(n) for n in range(1, 201)]
        assert [output.number for output in whole] == list(range(1, 202))
        assert await _all(client.job_output(job.id, since=150)) == whole[150:]
    async with agent_on(shared_machine) as later:
        info = next(found for found in await later.jobs() if found.id == job.id)
        assert (info.name, info.status, info.exit_code, info.last) == ("count", "failed", 4, 201)
        assert await _all(later.job_output(job.id)) == whole


async def test_a_flood_stays_whole_and_leaves_the_agent_awake(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        whole = _text(await _all(await client.shell("seq 1 100000")))
        assert whole == "".join(f"{n}\n" for n in range(1, 100_001))
        flood = await client.run_job("yes")
        async for output in client.job_output(flood.id):
            if output.number > 50:
                break
        asked = time.monotonic()
        await client.status()
        await client.cancel_job(flood.id)
        assert time.monotonic() - asked < 2
        assert (await client.job_output(flood.id, since=10**9).wait()).status == "cancelled"


async def test_output_beyond_the_bound_is_dropped_from_its_beginning_and_told(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        job = await client.run_job("yes 0123456789 | head -c 60000000; echo the end")
        await client.job_output(job.id, since=10**9).wait()
        kept = sum(
            path.stat().st_size
            for path in (shared_machine.agent_folder / "tasks" / job.id).iterdir()
        )
        assert kept <= TASK_JOURNAL_BYTES + 4096
        outputs = await _all(client.job_output(job.id))
        assert outputs[0].kind == "gap"
        assert outputs[0].content["from"] == 1
        assert _text(outputs).endswith("the end\n")


async def test_a_job_with_a_known_id_is_not_run_twice(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        for _ in range(2):
            await client.run_job('echo x >>"$HOME/ran"', id="only-once")
        await client.job_output("only-once").wait()
        assert (shared_machine.home / "ran").read_text() == "x\n"


async def test_a_cancelled_job_ends_with_all_its_children(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        job = await client.run_job("sleep 601 & sleep 602 & echo up; wait")
        following = client.job_output(job.id)
        async for output in following:
            if output.text == "up\n":
                await client.cancel_job(job.id)
        assert following.end is not None
        assert following.end.content == {"status": "cancelled", "exit_code": -signal.SIGTERM}
        commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
        assert ["sleep", "601"] not in commands
        assert ["sleep", "602"] not in commands


async def test_run_follows_setup_only_if_that_succeeded(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        good, bad = await client.run_job("sleep 0.1"), await client.run_job("sleep 0.1; exit 1")
        after_good = await client.run_job("echo ran", after=[good.id])
        after_bad = await client.run_job("echo ran", after=[bad.id])
        assert (await client.job_output(after_good.id).wait()).status == "ok"
        assert (await client.job_output(after_bad.id).wait()).status == "skipped"


@pytest.mark.parametrize("side", ["client", "machine"])
@pytest.mark.parametrize("kind", ["cell", "job"])
async def test_a_broken_line_loses_nothing_repeats_nothing_interrupts_nothing(
    machine: Any, agent_on: Any, kind: str, side: str
) -> None:
    async with agent_on(machine) as client:
        if kind == "cell":
            following = await client.cell(
                "import time\nfor n in range(60):\n  print(n, flush=True); time.sleep(0.02)"
            )
        else:
            following = client.job_output(
                (await client.run_job("for n in $(seq 0 59); do echo $n; sleep 0.02; done")).id
            )
        numbers, text, cuts = [], "", 0
        async for output in following:
            numbers.append(output.number)
            text += output.text
            lines = text.count("\n")
            if lines >= 15 * (cuts + 1) and cuts < 2:
                cuts += 1
                if side == "client":
                    client.connection.abort()
                else:
                    _cut(machine)
        assert cuts == 2
        assert text.split() == [str(n) for n in range(60)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert following.end is not None
        assert following.end.content["status"] == "ok"


async def test_a_machine_that_moved_is_found_through_the_callback(
    machine: Any, connected: Any
) -> None:
    made: list[Connection] = []

    async def reconnect() -> Connection:
        made.append(await Connection.open("127.0.0.1", machine.port, machine.keys))
        return made[-1]

    client = await AgentClient.start(
        await Connection.open("127.0.0.1", machine.port, machine.keys),
        AgentConfig(),
        reconnect=reconnect,
    )
    job = await client.run_job("echo before")
    client.connection.abort()
    assert _text(await _all(client.job_output(job.id))) == "before\n"
    assert client.connection is made[0]
    await client.close()


async def test_what_ran_goes_on_while_nobody_is_connected(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine) as client:
        await _all(await client.cell("x = 'kept'"))
        job = await client.run_job(
            'until [ -e "$HOME/go" ]; do sleep 0.02; done; echo done; touch "$HOME/finished"'
        )
    (machine.home / "go").touch()
    await until(lambda: (machine.home / "finished").exists(), "the job went on")
    async with agent_on(machine) as client:
        assert _text(await _all(client.job_output(job.id))) == "done\n"
        assert (await _all(await client.cell("x")))[0].content["data"]["text/plain"] == "'kept'"


async def test_the_agent_that_is_killed_comes_back_with_its_guards_and_journals(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine) as client:
        done = await client.run_job("echo kept")
        await client.job_output(done.id).wait()
        lost = await client.run_job("echo begun; exec sleep 603")
        following = client.job_output(lost.id)
        async for output in following:
            if output.text == "begun\n":
                os.kill(
                    json.loads((machine.agent_folder / "agent.json").read_text())["pid"],
                    signal.SIGKILL,
                )
        assert following.end is not None
        assert following.end.content["status"] == "lost"
        assert _text(await _all(client.job_output(done.id))) == "kept\n"
        assert ["sleep", "603"] not in [
            process.info["cmdline"] for process in psutil.process_iter(["cmdline"])
        ]


async def test_status_tells_what_a_person_wants_to_know(shared_machine: Any, agent_on: Any) -> None:
    async with agent_on(shared_machine) as client:
        await _all(await client.cell("1"))
        status = await client.status()
        main = next(kernel for kernel in status.kernels if kernel.name == "main")
        assert main.state == "idle"
        assert main.info["ipykernel"]
        assert status.uptime > 0
        assert 0 < status.disk_free <= status.disk_total
        assert status.ending is None


async def test_secrets_are_in_no_file_of_the_agent_and_on_no_command_line(
    machine: Any, agent_on: Any
) -> None:
    canary = "canary-0815-secret"
    async with agent_on(machine) as client:
        env = {"TOKEN": Secret(canary)}
        check = 'test "${#TOKEN}" = 18 && echo there'
        assert _text(await _all(await client.shell(check, env=env))) == "there\n"
        job = await client.run_job(
            f'{check}; until [ -e "$HOME/go" ]; do sleep 0.02; done', env=env
        )
        cell = await _all(await client.cell("import os; len(os.environ['TOKEN'])", env=env))
        later = await _all(
            await client.cell("len(os.environ['LATER'])", env={"LATER": Secret(canary + "!")})
        )
        assert [found.content["data"]["text/plain"] for found in (cell[0], later[0])] == [
            "18",
            "19",
        ]
        lines = [
            " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
        ]
        assert not [line for line in lines if canary in line]
        (machine.home / "go").touch()
        await client.job_output(job.id).wait()
    holding = [
        path
        for path in machine.home.rglob("*")
        if path.is_file() and canary.encode() in path.read_bytes()
    ]
    assert holding == []
    private = [
        path
        for path in (machine.agent_folder).rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077
    ]
    assert private == []


async def test_the_same_file_is_not_sent_again_and_one_agent_runs(
    machine: Any, agent_on: Any
) -> None:
    async with agent_on(machine):
        first = json.loads((machine.agent_folder / "agent.json").read_text())
        sent = (machine.agent_folder / agent_archive().name).stat().st_mtime_ns
    async with agent_on(machine):
        assert json.loads((machine.agent_folder / "agent.json").read_text()) == first
        assert (machine.agent_folder / agent_archive().name).stat().st_mtime_ns == sent


async def test_an_older_agent_is_replaced_when_idle_and_kept_when_in_use(
    machine: Any, agent_on: Any, connected: Any
) -> None:
    def pid() -> int:
        return int(json.loads((machine.agent_folder / "agent.json").read_text())["pid"])

    archive = machine.agent_folder / agent_archive().name
    older = machine.agent_folder / "nbprov-agent-older.pyz"
    async with agent_on(machine):
        pass
    async with connected(machine) as connection:
        shutil.copy(archive, older)
        with zipfile.ZipFile(older, "a") as other:
            other.comment = b"an older release"
        os.utime(older, (1.0, 1.0))
        first = pid()
        for process in (psutil.Process(first).parent(), psutil.Process(first)):
            assert process is not None
            process.kill()
            process.wait(60)
        started = await connection.run(
            f'python3 "$HOME"/.nbprov/{older.name} serve "$HOME"/.nbprov'
        )
        assert started.exit_code == 0
        assert archive.exists()  # it came later than the one that starts
        old_pid = pid()
        client = await AgentClient.start(connection, AgentConfig())
        assert pid() != old_pid
        assert not older.exists()
        await client.close()
    await _used_while_another_release_comes(machine, agent_on, archive, older, pid)


async def _used_while_another_release_comes(
    machine: Any, agent_on: Any, archive: Path, older: Path, pid: Any
) -> None:
    """An agent that is in use stays when a client of another release comes."""
    async with agent_on(machine) as client:
        in_use = pid()
        await client.run_job("sleep 604", id="long")
        os.rename(archive, older)
    with pytest.MonkeyPatch.context() as patch:
        other = Archive(agent_archive().content, "f" * 64)
        patch.setattr("nbprov.remote.agent.transport.agent_archive", lambda: other)
        patch.setattr("nbprov.remote.agent.install.agent_archive", lambda: other)
        async with agent_on(machine) as client:
            assert pid() == in_use
            assert (await client.task("long")).state == "running"
        assert (machine.agent_folder / other.name).exists()


async def test_a_machine_without_python_is_named(machine: Any, connected: Any) -> None:
    async with connected(machine) as connection:
        with pytest.raises(RemoteError, match="has no python9"):
            await AgentClient.start(connection, AgentConfig(python="python9"))


async def test_requests_that_make_no_sense_are_refused_by_name(
    shared_machine: Any, agent_on: Any
) -> None:
    async with agent_on(shared_machine) as client:
        with pytest.raises(AgentError) as caught:
            await client.run_job("true", id="../../etc")
        assert caught.value.code == "agent.bad-id"
        with pytest.raises(AgentError) as caught:
            await client.job_output("never-was").wait()
        assert caught.value.code == "agent.no-task"


async def test_ipykernel_that_cannot_be_installed_is_explained_in_the_cell(
    machine: Any, agent_on: Any, tmp_path: Path
) -> None:
    # A Python whose ipykernel cannot be imported, and a pip that has nowhere to get one from.
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "ipykernel.py").write_text("raise ImportError('none here')")
    python = machine.folder / "bin" / "python3"
    python.write_text(
        python.read_text().replace(
            "exec ", f"export PYTHONPATH={broken} PIP_NO_INDEX=1 PIP_CONFIG_FILE=/dev/null\nexec "
        )
    )
    async with agent_on(machine) as client:
        outputs = await asyncio.wait_for(_all(await client.cell("1")), 50)
        assert "installing it once into" in outputs[0].text
        assert outputs[-2].content["ename"] == "KernelError"
        assert "could not be installed" in outputs[-2].content["evalue"]
        assert _text(await _all(await client.shell("echo works"))) == "works\n"
