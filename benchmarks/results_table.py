"""Write the table of docs/benchmarks.md and the README's three figures from the JSON of a run.

`python benchmarks/results_table.py [--json FILE] [--check]`. Both stand between marks, so that
nobody edits them by hand. The table has every figure with a target, and those a measure marked.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run import short, table

ROOT = Path(__file__).resolve().parent.parent
LATEST = Path(__file__).resolve().parent / "latest.json"
"""The figures that the documentation shows; `run.py --json` writes them."""
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
HEADLINES = {
    "%load_ext nbprov, beyond IPython": "`%load_ext nbprov` takes {}.",
    "plan accelerators: A100:8 (74 candidates)": "A plan over 38,000 prices takes {}.",
    "a whole `%%on` cell in a kernel, against `echo` over an open ssh connection": (
        "A whole `%%on` cell takes {} as long as `echo` over an open ssh connection."
    ),
}
"""The README's three sentences, by the figure that each shows."""


class TableError(Exception):
    """The table cannot be written; the message says why."""


def section(report: Mapping[str, Any]) -> str:
    """The table of docs/benchmarks.md, and one line that says what it was taken on."""
    figures = [f for f in report["figures"] if f["target"] is not None or f["shown"]]
    return f"{table(figures)}\n\n{taken_on(report)}"


def headlines(report: Mapping[str, Any]) -> str:
    """The README's three sentences."""
    figures = {figure["name"]: figure for figure in report["figures"]}
    lines = [
        "- " + sentence.format(f"{short(figures[name]['value'])} {figures[name]['unit']}")
        for name, sentence in HEADLINES.items()
        if name in figures
    ]
    return "\n".join(lines)


def taken_on(report: Mapping[str, Any]) -> str:
    """The machine and the date, in lines of at most 100 columns."""
    m = report["machine"]
    load = "" if m["load"] is None else f", load up to {m['load']:g}"
    processor = f" {m['processor']}" if m["processor"] else ""
    return textwrap.fill(
        f"Median of several takes, with the least and the greatest; {report['taken'][:10]},"
        f" {m['cpus']} cores{processor} ({m['system']}{load}),"
        f" Python {m['python']}, nbprov {m['versions']['nbprov']}.",
        width=100,
    )


def replaced(text: str, new: str) -> str:
    """Return a text with the part between the marks replaced.

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
    """Read the report of a run, if it may be shown.

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
            f"{path.name} has schema {report.get('schema')}, this release knows {SCHEMA};"
            " measure anew"
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
    """Write both, or compare them with the figures (`--check`); return 1 if they differ."""
    parser = argparse.ArgumentParser(
        description="Write the figures of a run into docs/benchmarks.md and the README."
    )
    parser.add_argument(
        "--json", type=Path, default=LATEST, metavar="FILE", help="the figures (latest.json)"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        default=ROOT / "docs" / "benchmarks.md",
        metavar="FILE",
        help="the page that shows the table (docs/benchmarks.md)",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        default=ROOT / "README.md",
        metavar="FILE",
        help="the page that shows three figures (README.md)",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a page is out of date"
    )
    options = parser.parse_args(arguments)
    stale = []
    try:
        report = read(options.json)
        for page, shown in ((options.docs, section(report)), (options.readme, headlines(report))):
            old = page.read_text(encoding="utf-8")
            new = replaced(old, shown)
            if new != old:
                stale.append(page)
                if not options.check:
                    page.write_text(new, encoding="utf-8")
    except TableError as error:
        print(f"results_table: {error}", file=sys.stderr)
        return 1
    if options.check and stale:
        names = " and ".join(page.name for page in stale)
        print(
            f"{names} does not show the figures of {options.json.name}:"
            " run python benchmarks/results_table.py",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
