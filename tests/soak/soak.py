"""Use a cluster for a long time while its connections are cut every few seconds, and see what
grows.

    python tests/soak/soak.py --duration 20m

A real kernel on a real `local` cloud works without a pause: cells that print, scripts, variables
there and back, a tunnel, a sync, and now and then a second cluster that comes and goes. Meanwhile
the kernel's ssh connections are cut from outside. Every line must arrive once and in order. Exit
code 0: nothing was lost, and neither memory nor open files nor threads nor processes grew, in the
kernel, on the machines or in the cloud."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "kernel"))

from cutting import Cutter
from growth import judged, table
from homes import new_home
from kernels import Kernel, new_kernel
from readings import processes_of, sample
from rounds import LINES, Tally, one_round, prepare

CLUSTER = "%%provision dev --yes --wait\nresources: {cpus: 2, infra: local}\nnum_nodes: 2"
GAP = (1.0, 4.0)
EVERY = 5
"""Each so many rounds a second cluster comes and goes."""

GONE_SECONDS = 20.0
"""In which everything must have ended once the kernel has."""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

TASKS = """
import asyncio as _a, contextlib as _x, ctypes as _c, gc as _gc, nbprov.api as _api
getattr(get_ipython().history_manager, "outputs", {}).clear()
_gc.collect()
with _x.suppress(OSError, AttributeError):
    _c.CDLL("libc.so.6").malloc_trim(0)
print(len(_a.all_tasks(_api.session().engine.thread.loop)))
"""
"""Counts the tasks of the engine's loop.

Before, free memory goes back to the system, so that a reading means what is in use; and IPython's
record of what each cell printed is emptied, which grows by 30 KiB a round, with or without nbprov.
"""


def seconds_of(text: str) -> float:
    """A duration such as `90s`, `20m` or `1h`.

    Examples
    --------
    >>> seconds_of("20m")
    1200.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 20m or 1h")
    return float(found[1]) * UNITS[found[2]]


def soak(
    kernel: Kernel,
    home: Path,
    seconds: float,
    *,
    seed: int = 1,
    lines: int = LINES,
    gap: tuple[float, float] = GAP,
) -> tuple[Tally, list[dict[str, float]], int]:
    """Work for so long; what was done, the samples, and how many connections were cut."""
    kernel.run(CLUSTER)
    prepare(kernel)
    pid = kernel.value("__import__('os').getpid()")
    cutter, tally, samples = Cutter(pid, gap, seed), Tally(), []
    cutter.start()
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            one_round(kernel, tally, lines=lines, new_cluster=tally.rounds % EVERY == 0)
            samples.append(sample(pid, home, int(kernel.run(TASKS).text)))
            kernel.messages.clear()
            if sys.stderr.isatty():
                print(
                    f"\r{tally.rounds} rounds, {cutter.cuts} cuts",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        cutter.end()
    return tally, samples, cutter.cuts


def main(arguments: list[str] | None = None) -> int:
    """Soak, print the table, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--duration",
        type=seconds_of,
        default=1200.0,
        metavar="TIME",
        help="how long: 90s, 20m, 1h (default: 20m)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the cuts are drawn from it (default: 1)"
    )
    parser.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="keep every sample there"
    )
    options = parser.parse_args(arguments)
    if sys.platform == "win32":
        print("soak: the local cloud needs Linux, macOS or WSL", file=sys.stderr)
        return 2
    began = time.monotonic()
    with new_home() as home, new_kernel(home) as kernel:
        tally, samples, cuts = soak(kernel, home, options.duration, seed=options.seed)
        kernel.run("%nbprov down --all")
    left = _left(home)
    done = ", ".join(f"{count} {what}" for what, count in tally.done.items())
    print(
        f"{time.monotonic() - began:.0f} s, {tally.rounds} rounds, {cuts} connections cut, seed"
        f" {options.seed}: {done}\n"
    )
    if options.json is not None:
        options.json.write_text(
            json.dumps(
                {"cuts": cuts, "done": tally.done, "faults": tally.faults, "samples": samples},
                indent=1,
            )
        )
    for fault in tally.faults:
        print(fault, file=sys.stderr)
    if left:
        print(f"left behind: {left}", file=sys.stderr)
    try:
        growths = judged(samples)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(growths))
    return 1 if tally.faults or left or any(one.is_leak for one in growths) else 0


def _left(home: Path) -> list[str]:
    end = time.monotonic() + GONE_SECONDS
    while (alive := processes_of(home)) and time.monotonic() < end:
        time.sleep(0.2)
    return [f"{p.pid} {p.name()}" for p in alive]


if __name__ == "__main__":
    raise SystemExit(main())
