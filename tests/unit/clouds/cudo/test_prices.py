"""The fetch of CUDO's prices from end to end, against its double."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cudo_machines import PATH, CudoDouble, machine
from fetch_context import TODAY, Fetching
from web_double import WebDouble, busy, json_answer

from nbprov.clouds.cudo.prices import KEY_FILE, SHAPES, fetcher
from nbprov.clouds.pricing.fetcher import find
from nbprov.model.failures import Cause, CloudError
from nbprov.model.price_list import PriceList, PriceRow

CATALOGS = Path(__file__).parents[4] / "catalogs"
# Prices of the parts that add up to the shipped prices of Kristiansand.
A100 = machine(
    "epyc-genoa-a100-pcie", "A100 80GB PCIe", "no-kristiansand-1", "1.5", "0.0063", "0.0042"
)
MACHINES = [
    A100,
    machine("sapphire-rapids-h100", "H100 SXM", "ca-montreal-3", "2.5"),
    machine("epyc-genoa-h100-nvl", "H100 NVL", "us-carlsbad-1", "2.1", gpuMemoryGib=94),
    machine("ice-lake-a40-graphics", "A40 (graphics mode)", "se-stockholm-1", "0.35"),
    machine("ice-lake-rtx-a5000", "RTX A5000", "ca-montreal-3", "0.29"),
    machine("intel-broadwell-v100", "V100", "us-newyork-1", "0.19"),
    machine("epyc-milan", "", "gb-bournemouth-1", "0"),
]


@pytest.fixture(autouse=True)
def no_key_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Use a separate home without a key."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("CUDO_API_KEY", raising=False)
    return tmp_path


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server."""
    with WebDouble() as double:
        yield double


@pytest.fixture
def cudo(web: WebDouble) -> CudoDouble:
    """The list."""
    return CudoDouble(web, list(MACHINES))


def context(web: WebDouble, *regions: str, key: str = "cudo-key-1234") -> Fetching:
    """A context with a key."""
    return Fetching({"api": web.url()}, regions=regions, keys={"api_key": key} if key else {})


def fetched(web: WebDouble, *regions: str) -> PriceList:
    """The list of these data centres."""
    return fetcher().fetch(context(web, *regions).context)


def shapes(web: WebDouble, **other: Any) -> list[tuple[float, float, float]]:
    """Return the shapes in which a machine type is sold."""
    CudoDouble(web, [{**A100, **other}])
    return [(row.count, row.vcpus or 0, row.memory_gib or 0) for row in fetched(web).rows]


def test_it_is_found_by_its_name_and_asks_for_a_key(web: WebDouble) -> None:
    found = find("cudo")
    assert found is not None
    assert found.cloud == "cudo"
    said = found.ready(context(web, key="").context)
    assert "CUDO_API_KEY" in said
    assert str(KEY_FILE) in said
    assert found.ready(context(web).context) == ""
    assert web.asked == []


def test_without_a_key_nothing_is_asked(web: WebDouble, cudo: CudoDouble) -> None:
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(context(web, key="").context)
    assert caught.value.failure.cause is Cause.CREDENTIALS
    assert web.asked == []


def test_a_key_from_the_environment(
    web: WebDouble, cudo: CudoDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDO_API_KEY", cudo.key)
    assert fetcher().fetch(context(web, key="").context).rows


CONFIG = """configVersion: v0
current-context: work
contexts:
- {name: default, key: old, project: p}
- {name: work, key: new, project: p}
keys:
- {name: old, key: old-key-0000}
- {name: new, key: cudo-key-1234}
"""


def test_the_key_of_the_current_context_in_cudoctls_file(
    web: WebDouble, cudo: CudoDouble, no_key_of_the_user: Path
) -> None:
    file = no_key_of_the_user / ".config" / "cudo" / "cudo.yml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    assert fetcher().ready(context(web, key="").context) == ""
    assert fetcher().fetch(context(web, key="").context).rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "x",
        "key: a",
        "contexts: []\nkeys: []\ncurrent-context: a",
        CONFIG.replace("current-context: work", ""),
        CONFIG.replace("name: new", "name: odd"),
    ],
)
def test_a_file_without_a_key_is_none(web: WebDouble, no_key_of_the_user: Path, text: str) -> None:
    file = no_key_of_the_user / ".config" / "cudo" / "cudo.yml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert "CUDO_API_KEY" in fetcher().ready(context(web, key="").context)


def test_a_wrong_key_is_told_and_not_shown(web: WebDouble, cudo: CudoDouble) -> None:
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(context(web, key="wrong-key-5678").context)
    assert caught.value.failure.cause is Cause.CREDENTIALS
    assert "unauthenticated" in str(caught.value)
    assert "wrong-key" not in str(caught.value)


def test_prices_of_the_parts_are_added_up(web: WebDouble, cudo: CudoDouble) -> None:
    prices = fetched(web)
    rows = {(row.region, row.instance_type): row for row in prices.rows}
    assert rows["no-kristiansand-1", "epyc-genoa-a100-pcie_1x2v4gb"] == PriceRow(
        "no-kristiansand-1",
        "epyc-genoa-a100-pcie_1x2v4gb",
        "",
        "A100-80GB",
        1.0,
        80.0,
        "NVIDIA",
        2.0,
        4.0,
        "x86_64",
        1_529_400,
        None,
    )
    assert (
        rows["no-kristiansand-1", "epyc-genoa-a100-pcie_8x64v128gb"].on_demand
        == 8 * 1_500_000 + 64 * 6_300 + 128 * 4_200
    )
    assert (prices.source, prices.as_of, prices.covered, prices.unseen) == (
        "CUDO Compute API",
        TODAY,
        None,
        {"cpu"},
    )


def test_the_sum_is_what_the_shipped_catalogue_has(web: WebDouble, cudo: CudoDouble) -> None:
    with (CATALOGS / "cudo" / "prices.csv").open(newline="") as file:
        shipped = {
            row["id"]: row["on_demand"]
            for row in csv.DictReader(file)
            if row["region"] == "no-kristiansand-1"
        }
    rows = {row.instance_type: row.on_demand for row in fetched(web, "no-kristiansand-1").rows}
    both = [name for name in shipped if name in rows]
    assert len(both) == 6
    assert {name: rows[name] for name in both} == {
        name: round(float(shipped[name]) * 1e6) for name in both
    }


@pytest.mark.parametrize(
    ("kind", "accelerator", "gib"),
    [
        ("sapphire-rapids-h100", "H100-SXM", 80),
        ("epyc-genoa-h100-nvl", "H100", 94),
        ("ice-lake-a40-graphics", "A40", 48),
        ("ice-lake-rtx-a5000", "RTXA5000", 24),
        ("intel-broadwell-v100", "V100", 16),
    ],
)
def test_names_are_those_of_the_catalogue(
    web: WebDouble, cudo: CudoDouble, kind: str, accelerator: str, gib: float
) -> None:
    row = next(row for row in fetched(web).rows if row.instance_type == f"{kind}_1x2v4gb")
    assert (row.accelerator, row.device_gib, row.maker) == (accelerator, gib, "NVIDIA")


def test_all_names_join_the_shipped_catalogue(web: WebDouble, cudo: CudoDouble) -> None:
    shipped = set()
    for path in CATALOGS.glob("*/types.csv"):
        with path.open(newline="") as file:
            shipped |= {row["accelerator"] for row in csv.DictReader(file)}
    assert {row.accelerator for row in fetched(web).rows} <= shipped


def test_a_machine_type_without_a_gpu_is_no_row_and_no_fault(
    web: WebDouble, cudo: CudoDouble
) -> None:
    prices = fetched(web)
    assert not any(row.instance_type.startswith("epyc-milan_") for row in prices.rows)
    assert prices.notes == ()


@pytest.mark.parametrize("field", ["gpuPriceHr", "vcpuPriceHr", "memoryGibPriceHr"])
@pytest.mark.parametrize("value", [None, {}, {"value": ""}, {"value": "0"}, {"value": "-1"}])
def test_a_price_that_is_missing_leaves_the_machine_type_out(
    web: WebDouble, field: str, value: object
) -> None:
    CudoDouble(web, [*MACHINES[1:], {**A100, field: value}])
    prices = fetched(web)
    assert not any(row.region == "no-kristiansand-1" for row in prices.rows)
    assert prices.notes == ("1 machine types were left out: a price of theirs is missing",)


def test_shapes_keep_within_what_the_machine_type_allows(web: WebDouble) -> None:
    assert sorted(shapes(web)) == sorted(SHAPES)
    assert min(vcpus for _, vcpus, _ in shapes(web, minVcpu=8)) == 8
    assert min(gib for _, _, gib in shapes(web, minMemoryGib=24)) == 24
    assert max(gpus for gpus, _, _ in shapes(web, maxGpuPerVm=4)) == 4
    assert shapes(web, maxVcpuPerGpu=2) == [(1, 2, 4)]
    assert min(vcpus / gpus for gpus, vcpus, _ in shapes(web, minVcpuPerGpu=12)) == 12


def test_only_the_data_centres_asked_for(web: WebDouble, cudo: CudoDouble) -> None:
    prices = fetched(web, "ca-montreal-3", "mars-north-1")
    assert {row.region for row in prices.rows} == {"ca-montreal-3"}
    assert prices.covered == {"ca-montreal-3", "mars-north-1"}
    assert prices.failed == {"mars-north-1": "CUDO lists no such data centre"}


def test_busy_and_torn_answers_are_survived(web: WebDouble) -> None:
    whole = json_answer({"machineTypes": MACHINES})
    web.on(
        PATH,
        busy(429, retry_after=5),
        busy(503),
        whole.with_(cut=100),
        whole.with_(chunked=True, cut=100),
        whole,
    )
    fetching = context(web)
    assert fetcher().fetch(fetching.context).rows
    assert fetching.pauses == [5.0, 2.0, 4.0, 8.0]
    assert fetching.seen[-1].done == 1


@pytest.mark.parametrize("odd", [[], {}, {"machineTypes": {}}, {"machineTypes": ["x"]}, None])
def test_an_odd_answer_is_an_error_in_words(web: WebDouble, odd: object) -> None:
    web.on(PATH, json_answer(odd))
    with pytest.raises(CloudError, match="is not as documented"):
        fetched(web)


def test_an_empty_list_is_an_error_for_it_would_empty_the_catalogue(web: WebDouble) -> None:
    web.on(PATH, json_answer({"machineTypes": []}))
    with pytest.raises(CloudError, match="no machine type with a GPU"):
        fetched(web)
