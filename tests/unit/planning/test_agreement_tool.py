"""The comparison with SkyPilot's choices: its verdicts, and its check that a choice is valid."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
HEADER = [
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "GpuInfo",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
    "Arch",
]
L4_INFO = (
    "{'Gpus': [{'Name': 'L4', 'Manufacturer': 'NVIDIA', 'Count': 1, 'MemoryInfo': {'SizeInMiB': "
    "22888}}]}"
)
ROWS: dict[str, list[tuple[object, ...]]] = {
    "aws": [
        ("g6.xlarge", "L4", 1, 4, 16, L4_INFO, 0.8, 0.3, "us-east-1", "use1-az1", ""),
        ("g6.xlarge", "L4", 1, 4, 16, L4_INFO, 0.9, 0.2, "eu-west-1", "euw1-az1", ""),
        ("m6i.large", "", "", 2, 8, "", 0.096, "", "us-east-1", "use1-az1", ""),
        ("c6i.2xlarge", "", "", 8, 16, "", 0.34, "", "us-east-1", "use1-az1", ""),
        ("m6i.2xlarge", "", "", 8, 32, "", 0.384, "", "us-east-1", "use1-az1", ""),
    ],
    "lambda": [("gpu_1x_l4", "L4", 1, 8, 32, "", 0.5, "", "us-west-1", "", "")],
    "runpod": [("1x_L40S_SECURE", "L40S", 1, 16, 90, "", 0.99, 0.99, "US", "US-CA-1", "")],
}
CLOUDS = ("aws", "lambda", "runpod")


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    for cloud, rows in ROWS.items():
        (tmp_path / "v8" / cloud).mkdir(parents=True)
        with (tmp_path / "v8" / cloud / "vms.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEADER, *rows])
    return tmp_path


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("agreement")


def case(
    name: str, resources: object, decided: dict[str, Any], nodes: int | None = None
) -> dict[str, Any]:
    return {"id": name, "resources": resources, "num_nodes": nodes, "skypilot": decided}


def choice(
    kind: str,
    region: str = "us-east-1",
    *,
    cost: float,
    cloud: str = "aws",
    spot: bool = False,
    zone: str | None = None,
) -> dict[str, Any]:
    return {
        "cloud": cloud,
        "region": region,
        "zone": zone,
        "instance_type": kind,
        "accelerators": None,
        "use_spot": spot,
        "hourly_cost": cost,
    }


NO = {"error": "ResourcesUnavailableError"}
CASES = [
    case("same", {"cpus": "2+"}, choice("m6i.large", cost=0.096)),
    case("nothing", None, choice("m6i.2xlarge", cost=0.384)),
    case(
        "two nodes, cost of one",
        {"infra": "aws", "accelerators": "L4"},
        choice("g6.xlarge", cost=0.8),
        2,
    ),
    case(
        "two nodes, cost of both",
        {"infra": "aws", "accelerators": "L4"},
        choice("g6.xlarge", cost=1.6),
        2,
    ),
    case("cheaper", {"accelerators": {"L4": 1}}, choice("g6.xlarge", cost=0.8)),
    case(
        "dearer",
        {"infra": "aws", "accelerators": "L4", "max_hourly_cost": 0.5},
        choice("g6.xlarge", cost=0.8),
    ),
    case("accepted", {"infra": "lambda", "accelerators": "L4:1"}, NO),
    case("refused by both", {"accelerators": "V100"}, NO),
    case(
        "an error of the peer",
        {"accelerators": "nvidia:24GB:1", "infra": "aws"},
        {"error": "KeyError"},
    ),
    case(
        "a fragment of one cloud",
        {"accelerators": "L", "infra": "runpod"},
        choice("1x_L40S_SECURE", "US", cost=0.99, cloud="runpod"),
    ),
    case(
        "a clearer language",
        {"accelerators": ["L4:1", "L40S:1"], "any_of": [{"infra": "aws"}, {"infra": "runpod"}]},
        {"error": "ValueError"},
    ),
]


def test_every_case_gets_its_verdict_and_its_line(
    tool: ModuleType, prices: Path, tmp_path: Path
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text("\n".join(json.dumps(c) for c in CASES) + "\n", encoding="utf-8")
    out = tmp_path / "out" / "result.json"
    assert (
        tool.main(
            [
                "--cases",
                str(cases),
                "--catalogs",
                str(prices),
                "--json",
                str(out),
                "--clouds",
                ",".join(CLOUDS),
            ]
        )
        == 1
    )
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["summary"] == {
        "both_accepted": 6,
        "same_cost": 5,
        "cheaper": 1,
        "dearer": 0,
        "refused_where_accepted": 1,
        "accepted_where_refused": 3,
        "both_refused": 1,
    }
    said = {c["id"]: (c["verdict"], c["explained_by"], c["invalid"]) for c in result["cases"]}
    assert said["cheaper"] == ("cheaper", "empty-zone", "")
    assert said["dearer"] == ("refused_where_accepted", "cap-kept", "")
    assert said["accepted"] == ("accepted_where_refused", "empty-zone", "")
    assert said["an error of the peer"] == ("accepted_where_refused", "peer-error", "")
    assert said["a clearer language"] == ("accepted_where_refused", "language", "")
    assert not any(invalid for _, _, invalid in said.values())


def test_every_reason_is_a_line_of_the_compatibility_page(tool: ModuleType) -> None:
    page = (BENCHMARKS.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
    for key in ("empty-zone", "every-type", "spot-default", "cap-kept", "language", "peer-error"):
        assert f"| `{key}` |" in page


@pytest.mark.parametrize(
    ("resources", "nodes", "picked", "reason"),
    [
        ({"accelerators": "l4"}, 1, choice("g6.xlarge", cost=0.8, zone="use1-az1"), ""),
        (
            {"accelerators": "L4"},
            1,
            choice("g6.xlarge", cost=0.7, zone="use1-az1"),
            "the price files say",
        ),
        (
            {"accelerators": "L4"},
            1,
            choice("g6.xlarge", "us-east-2", cost=0.8, zone="use2-az1"),
            "no such line",
        ),
        (
            {"accelerators": "L4", "use_spot": True},
            1,
            choice("g6.xlarge", "eu-west-1", cost=0.2, spot=True, zone="euw1-az1"),
            "",
        ),
        (
            {"accelerators": "L4"},
            1,
            choice("g6.xlarge", "eu-west-1", cost=0.2, spot=True, zone="euw1-az1"),
            "a preferred alternative",
        ),
        (
            {"accelerators": "L4", "infra": "aws/us-east-1"},
            1,
            choice("g6.xlarge", "eu-west-1", cost=0.9, zone="euw1-az1"),
            "a preferred",
        ),
        ({"cpus": "8+"}, 1, choice("c6i.2xlarge", cost=0.34, zone="use1-az1"), "a preferred"),
        ({"cpus": "8+", "memory": "16"}, 1, choice("c6i.2xlarge", cost=0.34, zone="use1-az1"), ""),
        (
            {"accelerators": "L40S"},
            2,
            choice("1x_L40S_SECURE", "US", cost=0.99, cloud="runpod", zone="US-CA-1"),
            "no alternative",
        ),
        (
            {"accelerators": "L40S", "memory": "500+"},
            1,
            choice("1x_L40S_SECURE", "US", cost=0.99, cloud="runpod", zone="US-CA-1"),
            "",
        ),
        (
            {"accelerators": ["L4", "L40S"]},
            1,
            choice("1x_L40S_SECURE", "US", cost=0.99, cloud="runpod", zone="US-CA-1"),
            "a preferred",
        ),
        (
            {"accelerators": "L4", "disk_tier": "high"},
            1,
            choice("gpu_1x_l4", "us-west-1", cost=0.5, cloud="lambda"),
            "a preferred",
        ),
        ({"accelerators": "24GB"}, 1, choice("g6.xlarge", cost=0.8, zone="use1-az1"), ""),
        ({"accelerators": "nvidia:16GB+:1"}, 1, choice("g6.xlarge", cost=0.8, zone="use1-az1"), ""),
        (
            {"accelerators": "amd:16GB+"},
            1,
            choice("g6.xlarge", cost=0.8, zone="use1-az1"),
            "no alternative",
        ),
        (
            {"accelerators": "80GB+"},
            1,
            choice("g6.xlarge", cost=0.8, zone="use1-az1"),
            "no alternative",
        ),
        (
            {"accelerators": "L4", "max_hourly_cost": 0.7},
            1,
            choice("g6.xlarge", cost=0.8, zone="use1-az1"),
            "a preferred",
        ),
    ],
)
def test_whether_a_choice_may_be_made(
    tool: ModuleType,
    prices: Path,
    resources: dict[str, Any],
    nodes: int,
    picked: dict[str, Any],
    reason: str,
) -> None:
    validity = importlib.import_module("agreement_validity")
    files = validity.PriceFiles(prices / "v8", CLOUDS)
    said = validity.judge(resources, nodes, {**picked, "hourly": picked["hourly_cost"]}, files)
    assert said.startswith(reason) if reason else not said


def test_a_form_the_judge_cannot_read_is_counted_and_ends_no_run(
    tool: ModuleType, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumped(*_: object) -> str:
        raise ValueError("could not convert")

    monkeypatch.setattr(tool, "judge", stumped)
    result = tool.compare([CASES[0]], prices / "v8", CLOUDS)
    assert result["cases"][0]["invalid"] == "not judged: ValueError could not convert"
