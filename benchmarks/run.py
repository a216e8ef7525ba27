"""Measure nbprov on this machine.

`python benchmarks/run.py --json OUT [--catalogs DIR] [--only NAME …]`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figures import Figure, Setting

HERE = Path(__file__).resolve().parent
PREFIX = "measure_"
SCHEMA = 1
"""Raised when a field of the JSON changes its meaning or goes."""


def names() -> list[str]:
    """The measures there are: one for each file `measure_<name>.py` beside this one."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Figures, as they are in the JSON, as a Markdown table.

    Examples
    --------
    >>> print(table([{"name": "a", "unit": "ms", "value": 1.5, "low": 1, "high": 2, "target": 5, "is_met": True, "ratio": 0.3}]))
    | what | median | range | target | of target |
    |---|--:|--:|--:|--:|
    | a | 1.50 ms | 1.00–2.00 | < 5 ms | 30 % |
    """
    lines = ["| what | median | range | target | of target |", "|---|--:|--:|--:|--:|"]
    for f in figures:
        target = "" if f["target"] is None else f"< {f['target']:g} {f['unit']}"
        share = (
            ""
            if f["ratio"] is None
            else f"{f['ratio'] * 100:.0f} %{'' if f['is_met'] else ' **missed**'}"
        )
        cells = [
            f["name"],
            f"{short(f['value'])} {f['unit']}",
            f"{short(f['low'])}–{short(f['high'])}",
            target,
            share,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def short(value: float) -> str:
    """A figure with as many digits as mean something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def machine(load: float | None) -> dict[str, object]:
    """What the figures were taken on, and the highest load meanwhile.

    Other work on the same cores makes every time longer.
    """
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "load": load,
        "versions": {
            name: version(name) for name in ("nbprov", "numpy", "ipython", "ipykernel", "anywidget")
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )


def _load() -> list[float]:
    average = getattr(os, "getloadavg", None)
    return [] if average is None else [round(float(average()[0]), 1)]


@contextlib.contextmanager
def environment(**wanted: str | None) -> Iterator[None]:
    """Variables of this process and of those it starts; None takes one away.

    Put back at the end.
    """
    before = {name: os.environ.get(name) for name in wanted}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(wanted)
    try:
        yield
    finally:
        put(before)


def bytecode(folder: str) -> dict[str, str | None]:
    """Variables with which measured processes find their modules compiled, as an installed
    package's are.

    Where Python is told to write no bytecode (containers often do), each of them would compile the
    whole package anew."""
    if not sys.dont_write_bytecode:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": folder}


def measured(name: str, catalogs: Path | None, *, quick: bool) -> list[dict[str, Any]]:
    """The figures of one measure, as they are in the JSON."""
    with (
        tempfile.TemporaryDirectory(prefix="nbprov-benchmark-", ignore_cleanup_errors=True) as home,
        environment(NBPROV_HOME=home),
    ):
        figures: list[Figure] = importlib.import_module(PREFIX + name).measure(
            Setting(catalogs, Path(home), quick)
        )
    return [{"measure": name, **asdict(f), "is_met": f.is_met, "ratio": f.ratio} for f in figures]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures, print the table, write the JSON; 1 where a target was missed and `--strict`
    was given.
    """
    parser = argparse.ArgumentParser(description="Measure nbprov on this machine.")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file")
    parser.add_argument(
        "--catalogs",
        type=Path,
        metavar="DIR",
        help="price folders to use instead of the shipped ones",
    )
    parser.add_argument(
        "--only", nargs="+", choices=names(), metavar="NAME", help=f"some of: {', '.join(names())}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two takes of each figure: shows that all works, not how fast it is",
    )
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    options = parser.parse_args(arguments)
    report = {
        "schema": SCHEMA,
        "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "catalogs": "shipped" if options.catalogs is None else "others",
    }
    figures: list[dict[str, Any]] = []
    loads: list[float] = []
    started = time.monotonic()
    catalogs = options.catalogs.resolve() if options.catalogs else None
    with (
        tempfile.TemporaryDirectory(prefix="nbprov-bytecode-") as compiled,
        environment(**bytecode(compiled)),
    ):
        for name in options.only or names():
            print(f"measuring {name} …", file=sys.stderr)
            figures += measured(name, catalogs, quick=options.quick)
            loads += _load()
    print(table(figures))
    load = max(loads, default=None)
    print(
        f"\n{len(figures)} figures in {time.monotonic() - started:.0f} s; load on"
        f" {os.cpu_count()} cores up to {load}",
        file=sys.stderr,
    )
    if options.json:
        written = {**report, "machine": machine(load), "figures": figures}
        options.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    return 1 if options.strict and any(f["is_met"] is False for f in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
