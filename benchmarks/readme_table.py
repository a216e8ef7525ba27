"""Write the README's performance table from the figures of a run: `python benchmarks/readme_table.py [--json FILE] [--check]`.

The table stands between two marks, so that nobody edits it by hand: the figures with a target, and those a measure marked as shown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run import table

ROOT = Path(__file__).resolve().parent.parent
LATEST = Path(__file__).resolve().parent / "latest.json"
"""The figures that the README shows; written by `run.py --json`."""
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


class TableError(Exception):
    """The table cannot be written; the message says why."""


def section(report: Mapping[str, Any]) -> str:
    """What stands between the marks: the table, and in one line what it was taken on."""
    figures = [f for f in report["figures"] if f["target"] is not None or f["shown"]]
    return f"{table(figures)}\n\n{taken_on(report)}"


def taken_on(report: Mapping[str, Any]) -> str:
    """The machine and the date in one line."""
    m = report["machine"]
    load = "" if m["load"] is None else f", load up to {m['load']:g}"
    processor = f" {m['processor']}" if m["processor"] else ""
    return (
        f"Median of several takes, with the least and the greatest; {report['taken'][:10]}, {m['cpus']} cores{processor} ({m['system']}{load}),"
        f" Python {m['python']}, nbprov {m['versions']['nbprov']}. How: [docs/benchmarks.md](docs/benchmarks.md)."
    )


def replaced(text: str, new: str) -> str:
    """A text with what stands between the marks replaced.

    Raises
    ------
    TableError
        If the marks are not there, once each and in order.

    Examples
    --------
    >>> replaced(f"{BEGIN} old {END}", "new") == f"{BEGIN}\\nnew\\n{END}"
    True
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise TableError(f"{BEGIN} and {END} must be there once each, in this order")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def read(path: Path) -> dict[str, Any]:
    """The report of a run that may be shown.

    Raises
    ------
    TableError
        If there is none, it is a quick one or of other prices, or it lacks a measure that there is.
    """
    from run import SCHEMA, names

    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TableError(
            f"{path.name} cannot be read: {error}; python benchmarks/run.py --json {path} makes it"
        ) from None
    if report.get("schema") != SCHEMA:
        raise TableError(
            f"{path.name} has schema {report.get('schema')}, this release knows {SCHEMA}; measure anew"
        )
    if report["quick"]:
        raise TableError(
            f"{path.name} is of a quick run, which shows that all works and not how fast it is"
        )
    if report["catalogs"] != "shipped":
        raise TableError(f"{path.name} was made with other prices than the shipped ones")
    missing = sorted(set(names()) - {f["measure"] for f in report["figures"]})
    if missing:
        raise TableError(f"{path.name} lacks {', '.join(missing)}: it was made with --only")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or with `--check` say whether it is what the figures give; 1 where it is not."""
    parser = argparse.ArgumentParser(
        description="Write the README's performance table from the figures of a run."
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=LATEST,
        metavar="FILE",
        help="the figures (benchmarks/latest.json)",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        default=ROOT / "README.md",
        metavar="FILE",
        help="what to write into (README.md)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail where the table is not what the figures give",
    )
    options = parser.parse_args(arguments)
    try:
        old = options.readme.read_text(encoding="utf-8")
        new = replaced(old, section(read(options.json)))
    except TableError as error:
        print(f"readme_table: {error}", file=sys.stderr)
        return 1
    if options.check:
        if new != old:
            print(
                f"{options.readme.name} does not show the figures of {options.json.name}: python benchmarks/readme_table.py",
                file=sys.stderr,
            )
        return int(new != old)
    if new != old:
        options.readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
