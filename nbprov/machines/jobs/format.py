"""Describe jobs in words."""

from __future__ import annotations

import signal

from .jobs import Job

_MEANINGS = {
    9: "most likely because the memory ran out",
    11: "a crash in compiled code",
    6: "it gave up by itself, as CUDA and C++ do on a fatal error",
    7: "most likely because the shared memory ran out",
    15: "it was asked to end",
}
_PROGRAM = {126: "a command could not be run", 127: "a command, or the job's folder, was not found"}


def exit_words(code: int | None, state: str = "failed") -> str:
    """Return an exit code and its meaning.

    Examples
    --------
    >>> exit_words(3), exit_words(0), exit_words(None)
    ('3', '0', '')
    >>> exit_words(137)
    '137: killed by signal 9 (SIGKILL), most likely because the memory ran out'
    >>> exit_words(-9, "cancelled")
    '-9: killed by signal 9 (SIGKILL)'
    """
    if code is None:
        return ""
    number = -code if code < 0 else code - 128 if 128 < code < 128 + 65 else 0
    if not number:
        return f"{code}: {_PROGRAM[code]}" if code in _PROGRAM else str(code)
    try:
        name = f" ({signal.Signals(number).name})"
    except ValueError:
        name = ""
    # Windows knows few signals, but its kernels talk to machines that have all of them.
    name = name or {9: " (SIGKILL)", 7: " (SIGBUS)"}.get(number, "")
    why = f", {_MEANINGS[number]}" if number in _MEANINGS and state != "cancelled" else ""
    return f"{code}: killed by signal {number}{name}{why}"


def end_words(job: Job) -> str:
    """Return a line that says how a job ended."""
    code = f", exit code {exit_words(job.exit_code, job.state)}" if job.exit_code else ""
    return f"{job.id}: {job.state}{code}" + (f" ({job.reason})" if job.reason else "")


def gpu_words(job: Job) -> str:
    """Return the GPUs that a job asks for, and those that it got."""
    if job.gpus is None:
        return ""
    wanted = "all" if job.gpus == "all" else f"{job.gpus:g}"
    given = f" ({', '.join(map(str, job.devices))})" if job.devices else ""
    return wanted + given


def state_words(job: Job) -> str:
    """Return a job's state with its place in the queue, and the parts' states if they differ."""
    words = job.state
    if job.state == "queued" and job.position is not None:
        words = f"queued, {'next' if job.position == 1 else f'{job.position - 1} before it'}"
    states = [state for state, _ in job.parts]
    if len(set(states)) > 1:
        words += f" (nodes: {', '.join(states)})"
    return words + (f"; {job.reason}" if job.reason and job.is_over else "")
