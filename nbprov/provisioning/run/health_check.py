"""Check that a machine is the one that was asked for.

Its accelerators must answer, in the number and size that are paid for.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable

from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.offers import Candidate
from nbprov.model.resources import Compare
from nbprov.model.spec import HealthCheck
from nbprov.provisioning.live_cluster import LiveCluster, Node, all_of
from nbprov.remote.errors import RemoteError

from .launch_builder import image_at

QUERY = "nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits"
TOTAL_MEMORY = "sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo"

LEAST_SHARE = 0.85
"""The share of its nominal memory that a device must report.

The driver and error correction use up to a tenth: a T4 of 16 GB reports 15,360 MiB.
"""
LEAST_RAM_SHARE = 0.9
"""The share of the requested memory that a machine must have; its kernel uses a part."""

SLACK: Seconds = 30.0
"""The time for connecting, beside what the checks themselves may take."""

NOT_NVIDIA = ("tpu", "mi", "gaudi", "trainium", "inferentia", "radeon", "fpga")
"""How the names of accelerators begin that are not NVIDIA's."""

MOST_OUTPUT = 2000
"""How many bytes of a health command's output are read, from its end.

A command with endless output must not fill the notebook's memory.
"""

NO_DRIVER = (
    (127, "nvidia-smi: command not found", "it has no nvidia-smi"),
    (9, "couldn't communicate with the NVIDIA driver", "nvidia-smi cannot reach it"),
    (12, "libnvidia-ml.so", "its library is not there"),
    (18, "Driver/library version mismatch", "it and its library are of different versions"),
)
"""How a machine without a working driver shows itself.

Each row has the exit code of nvidia-smi (in the first row, of the shell), its message, and ours.
The codes 9 and 12 are in nvidia-smi's manual (return value), and 18 is NVML's
NVML_ERROR_LIB_RM_VERSION_MISMATCH. A container's wrapper may end with another code, so the
message counts as well.
"""

MIB_PER_GIB = 1024.0
KIB_PER_GIB = 1024.0 * 1024.0


def is_checked(health: HealthCheck, candidate: Candidate) -> bool:
    """Whether the machines of a candidate must pass a health check before they are ready."""
    return health.on and bool(health.command or _has_gpus(candidate) or _asked_memory(candidate))


def health_seconds(health: HealthCheck, candidate: Candidate) -> Seconds | None:
    """How long the check may take with all its tries; None where nothing is checked."""
    return (
        health.failures * (health.timeout + health.every) + SLACK
        if is_checked(health, candidate)
        else None
    )


def health_words(health: HealthCheck, candidate: Candidate) -> str:
    """A short note on what is checked; empty where nothing is."""
    if not is_checked(health, candidate):
        return ""
    offer = candidate.offer
    what = health.command or (
        f"nvidia-smi sees {offer.gpus}"
        if _has_gpus(candidate)
        else f"memory {candidate.request.memory}"
    )
    return f"{what} on every node, {health.failures} {'try' if health.failures == 1 else 'tries'}"


def _has_gpus(candidate: Candidate) -> bool:
    name = candidate.offer.accelerator.lower()
    return bool(name) and not name.startswith(NOT_NVIDIA)


def _asked_memory(candidate: Candidate) -> bool:
    return candidate.request.memory is not None and candidate.offer.cloud in MEMORY_IS_TYPICAL


async def check_health(
    live: LiveCluster, health: HealthCheck, tell: Callable[[str], object]
) -> None:
    """Check every node until it passes.

    Parameters
    ----------
    tell
        Called with a line on each check that fails.

    Raises
    ------
    CloudError
        If a node fails as often in a row as the spec allows. Its cause is `unhealthy`, and its
        message is that of the last check.
    """
    await all_of(*(_check_node(node, live, health, tell) for node in live.nodes))


async def _check_node(
    node: Node, live: LiveCluster, health: HealthCheck, tell: Callable[[str], object]
) -> None:
    where = f"node {node.instance.node}: " if len(live.nodes) > 1 else ""
    for number in range(1, health.failures + 1):
        wrong = await _once(node, live.candidate, health)
        if not wrong:
            return
        tell(f"health check {number} of {health.failures} failed: {where}{wrong}")
        if number < health.failures:
            await asyncio.sleep(health.every)
    raise CloudError(
        Failure(
            Cause.UNHEALTHY,
            f"{where}{wrong} ({health.failures} check{'' if health.failures == 1 else 's'})",
        )
    )


async def _once(node: Node, candidate: Candidate, health: HealthCheck) -> str:
    """Check a node once; return what is wrong, or an empty text."""
    try:
        if health.command:
            return await _command(node, health.command, health.timeout)
        wrong = await _gpus(node, candidate, health.timeout) if _has_gpus(candidate) else ""
        return wrong or (
            await _memory(node, candidate, health.timeout) if _asked_memory(candidate) else ""
        )
    except RemoteError as error:
        return error.message
    except CloudError as error:
        return error.failure.sentence()


async def _run(node: Node, command: str, seconds: Seconds) -> tuple[int, str, str]:
    assert node.connection is not None, "health is checked over an open connection"
    ended = await node.connection.run(command, deadline=seconds)
    lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return ended.exit_code, ended.stdout, lines[-1] if lines else ""


async def _command(node: Node, command: str, seconds: Seconds) -> str:
    # The exit code comes alone on stdout, and the end of the command's output on stderr.
    inner = (
        f"{{ {{ sh -c {shlex.quote(command)} 2>&1 3>&-; echo $? >&3; }}"
        f" | tail -c {MOST_OUTPUT} >&2; }} 3>&1"
    )
    outer, code, last = await _run(node, inner, seconds)
    code = code.strip() or str(outer)
    return (
        "" if code == "0" else f"the check ended with code {code}" + (f": {last}" if last else "")
    )


async def _gpus(node: Node, candidate: Candidate, seconds: Seconds) -> str:
    code, said, last = await _run(node, QUERY, seconds)
    if code != 0:
        ended = f"nvidia-smi ended with code {code}" + (f": {last}" if last else "")
        return driver_words(code, last, candidate) or ended
    sizes = [float(line) for line in said.split() if line.replace(".", "", 1).isdigit()]
    offer = candidate.offer
    wanted = max(1, int(offer.accelerator_count))
    if len(sizes) < wanted:
        return f"{len(sizes)} of {wanted} {offer.accelerator} answer"
    least = (
        (offer.accelerator_memory_gib or 0.0)
        * min(1.0, offer.accelerator_count or 1.0)
        * MIB_PER_GIB
        * LEAST_SHARE
    )
    if sizes and min(sizes) < least:
        return (
            f"a device has {min(sizes) / MIB_PER_GIB:.0f} GiB"
            f" where a {offer.accelerator} has {offer.accelerator_memory_gib:g}"
        )
    return ""


def driver_words(code: int, said: str, candidate: Candidate) -> str:
    """Say that the driver is missing, and what to do; empty if nvidia-smi failed otherwise.

    Parameters
    ----------
    code
        The exit code of nvidia-smi, or of the shell that did not find it.
    said
        The last line of its output.
    candidate
        Names the image of the machine: the advice depends on whether it is the user's own.
    """
    short = next((ours for number, words, ours in NO_DRIVER if code == number or words in said), "")
    if not short:
        return ""
    image = candidate.request.image
    named = (
        image.docker
        if image and image.docker and not image.machine
        else image_at(image, candidate.offer.region)
    )
    if named:
        what, advice = (
            f"the image {named}",
            f"leave image_id out for {candidate.offer.cloud}'s image with the driver,"
            " or name another that has it",
        )
    else:
        what, advice = f"{candidate.offer.cloud}'s usual image here", "name another by image_id"
    detail = f"code {code}{f': {said}' if said else ''}"
    return f"no NVIDIA driver that works in {what}: {short} ({detail}); {advice}"


async def _memory(node: Node, candidate: Candidate, seconds: Seconds) -> str:
    _, said, _ = await _run(node, TOTAL_MEMORY, seconds)
    wanted, offer = candidate.request.memory, candidate.offer
    if wanted is None or not said.strip().isdigit():
        return ""
    has = int(said) / KIB_PER_GIB
    # "At least" and "exactly" are checked alike: more memory than was asked for is fine.
    floor = (
        wanted.value * (offer.vcpus or 1.0) if wanted.compare is Compare.PER_VCPU else wanted.value
    )
    return (
        ""
        if has >= floor * LEAST_RAM_SHARE
        else f"it has {has:.0f} GiB of memory, and {wanted} was asked for"
    )
