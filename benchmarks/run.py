"""Measure nbprov on this machine: `python benchmarks/run.py --json OUT [--catalogs DIR] [--only NAME …]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from figures import Figure, Setting

HERE = Path(__file__).resolve().parent
PREFIX = "measure_"


def names() -> list[str]:
    """The measures there are: one for each file `measure_<name>.py` beside this one."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = ["| what | median | range | target |", "|---|---|---|---|"]
    for f in figures:
        target = "" if f.target is None else f"< {f.target:g} {f.unit}{'' if f.is_met else ' **missed**'}"
        lines.append(f"| {f.name} | {_short(f.value)} {f.unit} | {_short(f.low)}–{_short(f.high)} | {target} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "nbprov": version("nbprov"),
        "numpy": version("numpy"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures, print the table, write the JSON; 1 where a target was missed and `--strict` was given."""
    parser = argparse.ArgumentParser(description="Measure nbprov on this machine.")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file")
    parser.add_argument("--catalogs", type=Path, metavar="DIR", help="price folders to use instead of the shipped ones")
    parser.add_argument("--only", nargs="+", choices=names(), metavar="NAME", help=f"some of: {', '.join(names())}")
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    for name in options.only or names():
        with tempfile.TemporaryDirectory(prefix="nbprov-benchmark-") as home:
            os.environ["NBPROV_HOME"] = home
            setting = Setting(options.catalogs.resolve() if options.catalogs else None, Path(home))
            print(f"measuring {name} …", file=sys.stderr)
            figures += importlib.import_module(PREFIX + name).measure(setting)
    print(table(figures))
    if options.json:
        report = {"machine": machine(), "figures": [{**asdict(f), "is_met": f.is_met} for f in figures]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if options.strict and any(f.is_met is False for f in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
