"""Measure nbprov beside SkyPilot on the same price files: `python benchmarks/peer_skypilot.py
--catalogs DIR [--markdown OUT] [--json OUT]`.

SkyPilot is installed into a virtual environment of its own the first time. Both are asked the same
three requests with the same four clouds enabled, in one run; what is blocked is the same fifty
places for both. What is compared: the first prices of a cold process (interpreter start included)
and the time of a plan in a warm process, with no and with fifty blocks."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
VERSION = "0.14.1"
CLOUDS = ("aws", "azure", "runpod", "lambda")
"""Those of the files whose shape SkyPilot reads.

Its reader of GCP wants host and accelerator priced apart.
"""
ZONE = "AvailabilityZone"
TARGETS = {"first prices, cold": 10.0, "plan": 100.0, "plan, 50 blocks": 500.0}
REQUESTS = ("accelerators: A100:8", "four GPUs in ten regions", "cpus: 4+")


def environment(folder: Path) -> Path:
    """The interpreter of a virtual environment with SkyPilot, made where it is not there yet."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    probe = "import importlib.metadata as m; print(m.version('skypilot'))"
    found = subprocess.run(
        [python, "-c", probe], capture_output=True, text=True, check=False
    ).stdout.strip()
    if found != VERSION:
        print(f"installing skypilot {VERSION} (some minutes the first time)", file=sys.stderr)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", f"skypilot=={VERSION}"], check=True
        )
    return python


def catalogs_for_peer(source: Path, home: Path) -> None:
    """The price files where SkyPilot looks for them, as new as today, so that it fetches nothing.

    A zone column without a single zone is left out, as in the files SkyPilot itself publishes:
    where it stands and is empty, SkyPilot drops every row."""
    sellers: dict[str, set[str]] = {}
    for cloud in CLOUDS:
        target = home / ".sky" / "catalogs" / "v8" / cloud
        target.mkdir(parents=True)
        with (source / cloud / "vms.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        fields = [name for name in rows[0] if name != ZONE or any(row[ZONE] for row in rows)]
        with (target / "vms.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        for row in rows:
            if row["AcceleratorName"]:
                sellers.setdefault(row["AcceleratorName"], set()).add(cloud)
    common = home / ".sky/catalogs/v8/common"
    common.mkdir()
    (common / "metadata.csv").write_text("GPU,MemorySizes,Manufacturer\n", encoding="utf-8")
    with (common / "accelerators.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [
                ("AcceleratorName", "Clouds"),
                *((name, sorted(clouds)) for name, clouds in sorted(sellers.items())),
            ]
        )
    (home / ".sky/catalogs/v8/aws/images.csv").write_text(
        "Tag,Region,OS,OSVersion,ImageId,CreationDate,BaseImageId\n", encoding="utf-8"
    )
    (home / ".sky/catalogs/v8/aws/instance_quota_mapping.csv").write_text(
        "InstanceType,OnDemandCode,SpotCode\n", encoding="utf-8"
    )
    (home / ".sky/catalogs/v8/azure/images.csv").write_text(
        "Tag,Region,OS,OSVersion,ImageId,CreationDate\n", encoding="utf-8"
    )


def cold(python: Path | str, code: str, variables: Mapping[str, str], takes: int) -> list[float]:
    """Seconds from the start of an interpreter to its end; the first take warms the disk and is not
    counted.
    """
    seconds = []
    for _ in range(takes + 1):
        started = time.perf_counter()
        done = subprocess.run(
            [python, "-c", code],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds.append(time.perf_counter() - started)
        if done.returncode:
            raise SystemExit(f"{python} failed:\n{done.stderr[-2000:]}")
    return seconds[1:]


def warm(
    python: Path | str, script: Path, arguments: Sequence[str], variables: Mapping[str, str]
) -> dict[str, Any]:
    """What a measuring process prints.

    By request, seconds without and with blocks, and the cost it chose.
    """
    command = [python, script, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.name} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(catalogs: Path, python: Path, takes: int) -> list[dict[str, Any]]:
    """Every comparison, in the order of the table: name, seconds of each, ratio, target."""
    with tempfile.TemporaryDirectory(prefix="nbprov-peer-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        peers, ours = home / "peer", home / "ours"
        catalogs_for_peer(catalogs, peers)
        quiet = {
            "HOME": str(peers),
            "USERPROFILE": str(peers),
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        mine = {
            "NBPROV_HOME": str(ours),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(home / "bytecode"),
        }
        first = (
            "from nbprov.catalog import Catalog, Query; "
            f"c = Catalog.open([{str(catalogs)!r}]); "
            "print(len(c.select(Query(accelerator='A100')).offers(50)))"
        )
        listing = (
            "import sky; from sky import catalog;"
            " print(len(catalog.list_accelerators(name_filter='A100',"
            f" clouds={list(CLOUDS)!r})))"
        )
        results = [
            _compared(
                "first prices, cold",
                cold(sys.executable, first, mine, takes),
                cold(python, listing, quiet, takes),
            )
        ]
        us = warm(sys.executable, HERE / "peer_ours.py", [str(catalogs), str(takes * 10)], mine)
        them = warm(
            python,
            HERE / "peer_theirs.py",
            [str(takes), json.dumps({name: found["blocks"] for name, found in us.items()})],
            quiet,
        )
        for kind in ("plan", "plan, 50 blocks"):
            for request in REQUESTS:
                results.append(
                    _compared(
                        f"{kind}: {request}", us[request][kind], them[request][kind], TARGETS[kind]
                    )
                )
                results[-1]["hourly"] = [us[request]["hourly"], them[request]["hourly"]]
    return results


def _compared(
    name: str, ours: Sequence[float], theirs: Sequence[float], target: float | None = None
) -> dict[str, Any]:
    wanted = TARGETS[name] if target is None else target
    mine, peer = median(ours), median(theirs)
    return {
        "name": name,
        "ours": mine,
        "theirs": peer,
        "ratio": peer / mine,
        "target": wanted,
        "is_met": peer / mine >= wanted,
    }


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The comparisons as a Markdown table."""
    lines = ["| what | nbprov | SkyPilot | times | target |", "|---|--:|--:|--:|--:|"]
    for r in results:
        missed = "" if r["is_met"] else " **missed**"
        lines.append(
            f"| {r['name']} | {_words(r['ours'])} | {_words(r['theirs'])} |"
            f" {r['ratio']:,.0f}{missed} | {r['target']:g} |"
        )
    return "\n".join(lines)


def _words(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.2f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write what was asked for; 1 where a target was missed and
    `--strict` was given.
    """
    parser = argparse.ArgumentParser(
        description="Measure nbprov beside SkyPilot on the same price files."
    )
    parser.add_argument(
        "--catalogs", type=Path, required=True, metavar="DIR", help="price folders in the v8 layout"
    )
    parser.add_argument(
        "--environment",
        type=Path,
        default=HERE.parent / "build" / "peer-skypilot",
        metavar="DIR",
        help="SkyPilot's own",
    )
    parser.add_argument("--takes", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument(
        "--markdown", type=Path, metavar="OUT", help="put the table between the marks in this page"
    )
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    options = parser.parse_args(arguments)
    results = measure(
        options.catalogs.resolve(), environment(options.environment.resolve()), options.takes
    )
    shown = table(results)
    print(shown)
    if options.json:
        options.json.write_text(
            json.dumps({"skypilot": VERSION, "takes": options.takes, "results": results}, indent=2)
            + "\n",
            encoding="utf-8",
        )
    if options.markdown:
        page = options.markdown.read_text(encoding="utf-8")
        head, _, rest = page.partition("<!-- peer:begin -->")
        _, _, tail = rest.partition("<!-- peer:end -->")
        options.markdown.write_text(
            f"{head}<!-- peer:begin -->\n{shown}\n<!-- peer:end -->{tail}", encoding="utf-8"
        )
    return 1 if options.strict and not all(r["is_met"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
