"""`%nbprov jobs` and `%nbprov logs`: a queue that needs no kernel, and logs that outlive the
machine."""

from __future__ import annotations

import re

from kernels import CPU, GPU, Kernel

UNTIL_GO = 'until [ -e "$HOME/go" ]; do sleep 0.02; done'


def table(kernel: Kernel, line: str = "%nbprov jobs dev") -> dict[str, list[str]]:
    """Return the rows of a list of jobs, by id."""
    lines = kernel.run(line).values[0].splitlines()
    rule = next(n for n, text in enumerate(lines) if set(text) <= set("─- ") and text.strip())
    return {row.split()[0]: re.split(r"\s{2,}", row.strip()) for row in lines[rule + 1 :]}


def test_a_killed_kernel_leaves_jobs_and_queue_to_the_machine(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{GPU}")
    first = kernel.run(
        f"%%nbprov jobs dev submit --name train --env WORD=one\n"
        f"echo began with $WORD on $CUDA_VISIBLE_DEVICES\n{UNTIL_GO}\nseq 2000"
    )
    assert (
        first.text
        == "train-1: starts now on dev; %nbprov logs dev train-1 -f shows its output as it comes\n"
    )
    assert kernel.run(
        "%nbprov jobs dev submit -- echo 'it'\"'\"'s' $((1+1)); exit 3"
    ).text.startswith("job-1: is next in the queue on dev;")
    assert kernel.run("%nbprov jobs dev submit --name train -- kill -9 $$").text.startswith(
        "train-2: waits behind 1 other on dev;"
    )
    kernel.until(
        lambda: kernel.run("%nbprov logs dev train-1").text == "began with one on 0\n",
        "the first job to begin",
    )
    kernel.restart()
    kernel.run("%load_ext nbprov")
    rows = table(kernel)
    assert [rows[id][1] for id in ("train-1", "job-1", "train-2")] == [
        "running",
        "queued, next",
        "queued, 1 before it",
    ]
    kernel.restart()
    kernel.run("%load_ext nbprov")
    kernel.run("%%on dev --bash\ntouch go")
    assert kernel.run("%nbprov jobs dev wait train-1 job-1 train-2").text.splitlines() == [
        "train-1: ok",
        "job-1: failed, exit code 3",
        "train-2: failed, exit code -9: killed by signal 9 (SIGKILL), most likely because the "
        "memory ran out",
    ]
    assert kernel.run("%nbprov logs dev job-1").text == "it's 2\n"
    told = kernel.run("%nbprov logs dev train-1").text.splitlines()
    assert told[0] == (
        "… 1,001 earlier lines are not shown; %nbprov logs dev train-1 --save FILE saves all of it"
    )
    assert told[1:] == [str(n) for n in range(1001, 2001)]
    assert kernel.run("%nbprov logs dev train-1 --last 2").text == "1999\n2000\n"
    assert kernel.run("%nbprov logs dev train-1 --save log.txt").text.startswith(
        "log.txt: 2,001 lines, "
    )
    assert kernel.value("open('log.txt').read().splitlines()[:2]") == ["began with one on 0", "1"]
    # All of it is still there after the machine has ended.
    kernel.run("%nbprov down dev")
    listed = kernel.run("%nbprov jobs dev").values[0]
    assert listed.endswith("from the local archive; the machine has ended")
    assert (
        kernel.run("%nbprov logs dev job-1").text
        == "it's 2\n(from the local archive; dev has ended)\n"
    )
    assert kernel.run("%nbprov jobs").text == "no cluster is live\n"
    kernel.run("frame = %nbprov jobs dev")
    assert kernel.value("frame.set_index('id').exit_code.to_dict()") == {
        "train-1": 0,
        "job-1": 3,
        "train-2": -9,
    }


def test_following_ends_with_the_job_and_an_interrupt_ends_the_following_alone(
    shared_cluster: Kernel,
) -> None:
    shared_cluster.run(
        "%nbprov jobs dev submit --name calm -- printf '\\033[31mred\\033[2J\\033[0m\\n'; "
        "sleep 0.3; echo end"
    )
    assert shared_cluster.run("%nbprov logs dev calm -f").text == "red\nend\n(calm-1: ok)\n"
    shared_cluster.run("%nbprov jobs dev submit --name flood -- yes")
    request = shared_cluster.send("%nbprov logs dev flood -f")
    shared_cluster.until(
        lambda: "lines came too fast" in shared_cluster.outcome(request).text, "a flood"
    )
    shared_cluster.interrupt(request)
    told = shared_cluster.finish(request)
    assert told.error_text == "no longer following; the job on dev keeps running"
    assert len(told.text) < 2_000_000
    assert table(shared_cluster)["flood-1"][1] == "running"
    assert shared_cluster.run("%nbprov jobs dev cancel flood").text == "cancelling: flood-1\n"
    assert shared_cluster.run("%nbprov jobs dev wait flood").text.startswith("flood-1: cancelled")
    assert len(shared_cluster.run("%nbprov logs dev flood").text.splitlines()) == 1001


def test_the_handle_its_twin_and_completion(shared_cluster: Kernel) -> None:
    shared_cluster.run(
        "import nbprov\njob = nbprov.cluster('dev').submit('echo hi; exit 5', name='api')"
    )
    assert shared_cluster.run("(await job).exit_code").values == ["5"]
    assert shared_cluster.value("job.logs()") == "hi\n"
    assert (
        shared_cluster.run("%nbprov logs dev").text == "hi\n"
    )  # the newest job, because the spec had no `run`
    assert shared_cluster.run(
        "(await (await nbprov.aio.submit('dev', 'true', name='twin'))).state"
    ).values == ["'ok'"]
    assert shared_cluster.complete("%nbprov jobs ") == ["dev"]
    assert shared_cluster.complete("%nbprov jobs dev ") == ["cancel", "submit", "wait"]
    assert {"api", "api-1"} <= set(shared_cluster.complete("%nbprov logs dev a"))
    assert "--gpus" in shared_cluster.complete("%%nbprov jobs dev submit --")
    assert "api-1" in shared_cluster.complete("%nbprov jobs dev cancel ")
    assert "dev      api-1" in shared_cluster.run("%nbprov jobs").values[0]


def test_a_variable_of_the_kernel_travels_as_a_secret(shared_cluster: Kernel) -> None:
    shared_cluster.run("import os; os.environ['CANARY'] = 'tweet-4711'")
    shared_cluster.run(
        "%nbprov jobs dev submit --name secret --env CANARY --gpus all -- echo $CANARY ${#CANARY}"
    )
    assert shared_cluster.run("%nbprov jobs dev wait secret").text == "secret-1: ok\n"
    assert shared_cluster.run("%nbprov logs dev secret").text == "*** 10\n"
    shared_cluster.until(
        lambda: list((shared_cluster.home / "jobs").glob("*/secret-1.log")), "the log to be kept"
    )
    for path in shared_cluster.home.rglob("*"):
        if path.is_file() and "local" not in path.relative_to(shared_cluster.home).parts:
            assert b"tweet-4711" not in path.read_bytes(), path


def test_errors_are_short(shared_cluster: Kernel) -> None:
    cases = {
        "jobs dev submit --gpus 1 -- true": "dev: this node has no GPUs, the job asks for 1  "
        "[job.too-many-gpus]",
        "jobs dev submit --nodes 2 -- true": "dev has 1 node, the job asks for 2  [job.nodes]",
        "jobs dev submit --nodes x -- true": "--nodes takes all or a number, not 'x'",
        "jobs dev submit --name setup -- true": "'setup' cannot be a job's name  [job.name]",
        "jobs dev submit --gpus some -- true": "%nbprov jobs: argument --gpus: 'some' is neither "
        "all "
        "nor "
        "a "
        "number "
        "of "
        "GPUs",
        "jobs dev submit --env NOBODY -- true": "the kernel's environment has no NOBODY  "
        "[env.missing]",
        "jobs dev submit": "there is no script to run",
        "jobs dev submit python train.py": "%nbprov jobs NAME submit does not take 'python'",
        "jobs dev cancel": "name the jobs to cancel",
        "jobs dev cancel nothing-1": "dev has no job 'nothing-1'  [job.not-found]",
        "jobs dev wait nothing-1": "dev has no job 'nothing-1'  [job.not-found]",
        "jobs nobody": "no live cluster is called 'nobody'",
        "logs dev nothing": "dev has no job 'nothing'  [job.not-found]",
        "jobs dev list": "%nbprov jobs has no action 'list'",
        "logs dev --node 7": "dev has no node 7",
        "logs dev --save /nowhere/log": "/nowhere/log cannot be written: its folder does not exist",
    }
    for line, words in cases.items():
        told = shared_cluster.run(f"%nbprov {line}", ok=False).error_text
        assert told.startswith(words), told
        assert len(told.splitlines()) == 2, told


def test_a_job_needs_no_cell_to_end_and_what_it_prints_is_kept_meanwhile(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\nrun: echo from the run")
    folder = kernel.home / "jobs"
    kernel.until(
        lambda: [p for p in folder.glob("*/run.log") if p.read_text() == "from the run\n"],
        "the log of the run to be kept",
    )
