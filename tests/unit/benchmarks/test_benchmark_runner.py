"""The benchmark runner writes the documented JSON, and the pages follow from it.

No time is judged here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "benchmarks"

REPORT = {
    "schema": int,
    "taken": str,
    "quick": bool,
    "catalogs": str,
    "machine": dict,
    "figures": list,
}
MACHINE = {
    "python": str,
    "system": str,
    "processor": str,
    "cpus": int,
    "load": (float, type(None)),
    "versions": dict,
}
FIGURE = {
    "measure": str,
    "name": str,
    "unit": str,
    "value": float,
    "low": float,
    "high": float,
    "repeats": int,
    "target": (float, type(None)),
    "is_met": (bool, type(None)),
    "ratio": (float, type(None)),
    "shown": bool,
}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=120
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("figures") / "figures.json"
    done = run("run.py", "--only", "plan", "--quick", "--json", str(out))
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    for figure in written["figures"]:
        assert f"| {figure['name']} |" in done.stdout
    return written


def matches(value: dict[str, Any], shape: dict[str, Any]) -> bool:
    return value.keys() == shape.keys() and all(
        isinstance(value[name], kind) for name, kind in shape.items()
    )


def test_the_json_has_the_documented_form(report: dict[str, Any]) -> None:
    assert matches(report, REPORT)
    assert matches(report["machine"], MACHINE)
    assert report["schema"] == 1
    assert report["quick"] is True
    assert report["figures"]
    for figure in report["figures"]:
        assert matches(figure, FIGURE), figure


def test_a_figure_agrees_with_itself(report: dict[str, Any]) -> None:
    for figure in report["figures"]:
        assert figure["measure"] == "plan"
        assert 0 < figure["low"] <= figure["value"] <= figure["high"]
        assert figure["is_met"] is (figure["value"] < figure["target"])
        assert figure["ratio"] == pytest.approx(figure["value"] / figure["target"], abs=0.001)


MARKS = "<!-- benchmarks:begin -->\nold\n<!-- benchmarks:end -->\n"


def pages(folder: Path) -> tuple[Path, Path, tuple[str, ...]]:
    """A page for the table and a README, with the arguments that name them."""
    docs, readme = folder / "benchmarks.md", folder / "README.md"
    for page in (docs, readme):
        page.write_text(f"before\n{MARKS}after\n", encoding="utf-8")
    figures = str(folder / "figures.json")
    return docs, readme, ("--json", figures, "--docs", str(docs), "--readme", str(readme))


def test_a_quick_run_is_not_shown(report: dict[str, Any], tmp_path: Path) -> None:
    docs, readme, arguments = pages(tmp_path)
    (tmp_path / "figures.json").write_text(json.dumps(report), encoding="utf-8")
    done = run("results_table.py", *arguments)
    assert done.returncode == 1
    assert "quick" in done.stderr
    assert all("old" in page.read_text(encoding="utf-8") for page in (docs, readme))


def test_the_pages_are_written_and_checked(report: dict[str, Any], tmp_path: Path) -> None:
    measures = [path.stem.removeprefix("measure_") for path in BENCHMARKS.glob("measure_*.py")]
    plain = {**report["figures"][0], "target": None, "is_met": None, "ratio": None}
    others = [
        {**plain, "measure": name, "name": f"only in the JSON: {name}"}
        for name in measures
        if name != "plan"
    ]
    whole = {**report, "quick": False, "figures": [*report["figures"], *others]}
    docs, readme, arguments = pages(tmp_path)
    figures = tmp_path / "figures.json"
    figures.write_text(json.dumps(whole), encoding="utf-8")
    assert run("results_table.py", *arguments, "--check").returncode == 1
    assert run("results_table.py", *arguments).returncode == 0
    for page in (docs, readme):
        text = page.read_text(encoding="utf-8")
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "only in the JSON" not in text
        assert "old" not in text
    text = docs.read_text(encoding="utf-8")
    assert all(f"| {figure['name']} |" in text for figure in report["figures"])
    assert "A plan over 38,000 prices takes " in readme.read_text(encoding="utf-8")
    assert run("results_table.py", *arguments, "--check").returncode == 0
    figures.write_text(json.dumps({**whole, "figures": report["figures"]}), encoding="utf-8")
    assert "lacks" in run("results_table.py", *arguments, "--check").stderr


def test_the_pages_show_the_figures_of_the_last_run() -> None:
    done = run("results_table.py", "--check")
    assert done.returncode == 0, done.stderr
