"""How far nbprov's choice agrees with SkyPilot's, case by case: `python benchmarks/agreement.py
--cases FILE.jsonl --catalogs DIR --json OUT`.

A case is a real `resources` block with what SkyPilot's own optimizer decided on the same prices.
Enabled clouds are an input (`--clouds`); what they can do is SkyPilot's feature table; only the
price of the machine counts, one node, since what SkyPilot reports of several nodes is one node's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from agreement_reasons import explain
from agreement_validity import PriceFiles, judge

from nbprov.catalog import Catalog
from nbprov.model.errors import NbprovError
from nbprov.model.money import MICROS_PER_USD
from nbprov.planning import EnabledCloud, plan
from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds
from nbprov.spec import parse

CLOUDS = ("aws", "azure", "runpod", "lambda")
SAME = 2e-6
"""Dollars an hour: prices are kept to a millionth."""
COUNTED = (
    "same_cost",
    "cheaper",
    "dearer",
    "refused_where_accepted",
    "accepted_where_refused",
    "both_refused",
)


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; the exit code is 1 where a case is dearer, refused where SkyPilot accepts, or
    cheaper by an offer that may not be taken.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument(
        "--catalogs",
        type=Path,
        required=True,
        help="folder of <cloud>/vms.csv, or one that holds such a folder as v8",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--clouds", default=",".join(CLOUDS), help="enabled clouds, with commas between"
    )
    given = parser.parse_args(arguments)
    clouds = tuple(name.strip() for name in given.clouds.split(",") if name.strip())
    result = compare(read_cases(given.cases), price_folder(given.catalogs), clouds)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(said(result)))
    bad = [
        c
        for c in result["cases"]
        if c["verdict"] in ("dearer", "refused_where_accepted") or c["invalid"]
    ]
    return 1 if bad else 0


def price_folder(folder: Path) -> Path:
    """The folder that holds one folder a cloud."""
    return (
        folder if any(folder.glob("*/vms.csv")) or not (folder / "v8").is_dir() else folder / "v8"
    )


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file of JSON lines."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def compare(
    cases: Iterable[Mapping[str, Any]], folder: Path, clouds: tuple[str, ...]
) -> dict[str, Any]:
    """Every case, and how many of each verdict."""
    files = PriceFiles(folder, clouds)
    enabled = skypilot_clouds(clouds, "me")
    with tempfile.TemporaryDirectory() as cache:
        catalog = Catalog.open([folder], cache=cache)
        compared = [_case(case, catalog, enabled, files) for case in cases]
    summary = {
        "both_accepted": sum(c["verdict"] in ("same_cost", "cheaper", "dearer") for c in compared)
    }
    summary |= {verdict: sum(c["verdict"] == verdict for c in compared) for verdict in COUNTED}
    return {"summary": summary, "clouds": list(clouds), "cases": compared}


def task_of(case: Mapping[str, Any]) -> str:
    """The case as the YAML of a task."""
    task: dict[str, Any] = {"resources": case.get("resources") or {}}
    if case.get("num_nodes") is not None:
        task["num_nodes"] = case["num_nodes"]
    return yaml.safe_dump(task, sort_keys=False)


def _case(
    case: Mapping[str, Any],
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    files: PriceFiles,
) -> dict[str, Any]:
    nodes = case.get("num_nodes") or 1
    ours = _ours(task_of(case), catalog, enabled)
    theirs = dict(case["skypilot"])
    if "error" not in theirs:
        theirs["hourly_node"] = files.price(theirs) or theirs["hourly_cost"]
    invalid = "" if "error" in ours else _judged(case, nodes, ours, files)
    verdict = _verdict(ours, theirs)
    key = (
        ""
        if verdict in ("same_cost", "both_refused")
        else explain(case, ours, theirs, verdict, files)
    )
    return {
        "id": case["id"],
        "resources": case.get("resources"),
        "num_nodes": nodes,
        "skypilot": theirs,
        "nbprov": ours,
        "verdict": verdict,
        "explained_by": key,
        "invalid": invalid,
    }


def _judged(case: Mapping[str, Any], nodes: int, ours: Mapping[str, Any], files: PriceFiles) -> str:
    """What is against our choice; a form that the judge cannot read is against it, too, and ends no
    run.
    """
    try:
        return judge(case.get("resources"), nodes, {**ours, "hourly": ours["hourly_node"]}, files)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return f"not judged: {type(error).__name__} {error}"


def _ours(task: str, catalog: Catalog, enabled: Mapping[str, EnabledCloud]) -> dict[str, Any]:
    try:
        made = plan(parse(task), catalog, enabled)
    except NbprovError as error:
        return {"error": type(error).__name__, "code": error.code, "message": error.message}
    if made.chosen is None:
        return {"error": "no candidate", "code": "plan.none", "message": "; ".join(made.notes)}
    offer = made.chosen.offer
    return {
        "cloud": offer.cloud,
        "region": offer.region,
        "zone": offer.zone or None,
        "instance_type": offer.instance_type,
        "accelerators": {offer.accelerator: offer.accelerator_count} if offer.accelerator else None,
        "use_spot": offer.market.value == "spot",
        "hourly_node": offer.hourly / MICROS_PER_USD,
        "hourly_cost": made.chosen.hourly / MICROS_PER_USD,
        "candidates": len(made.candidates),
    }


def _verdict(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    if "error" in theirs:
        return "both_refused" if "error" in ours else "accepted_where_refused"
    if "error" in ours:
        return "refused_where_accepted"
    more = ours["hourly_node"] - theirs["hourly_node"]
    if abs(more) <= SAME:
        return "same_cost"
    return "dearer" if more > 0 else "cheaper"


def said(result: Mapping[str, Any]) -> Iterator[str]:
    """The report in lines: the counts, then every case that differs."""
    yield "  ".join(f"{name} {count}" for name, count in result["summary"].items())
    for case in result["cases"]:
        if case["verdict"] in ("same_cost", "both_refused") and not case["invalid"]:
            continue
        ours, theirs = case["nbprov"], case["skypilot"]
        yield (
            f"{case['verdict']:<23} {case['explained_by']:<18} {case['id']}: {_words(ours)} |"
            f" SkyPilot: {_words(theirs)}"
        )
        if case["invalid"]:
            yield f"  NOT VALID: {case['invalid']}"


def _words(choice: Mapping[str, Any]) -> str:
    if "error" in choice:
        return f"{choice['error']} {choice.get('code', '')}".strip()
    place = "/".join(
        part for part in (choice["cloud"], choice["region"], choice.get("zone")) if part
    )
    return (
        f"{choice['instance_type']}@{place}{' spot' if choice['use_spot'] else ''}"
        f" ${choice['hourly_node']:g}"
    )


if __name__ == "__main__":
    sys.exit(main())
