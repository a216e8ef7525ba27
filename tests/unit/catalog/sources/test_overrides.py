"""A user's own lines: what they add, change and hide, and what becomes of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.catalog import Catalog, Query
from nbprov.catalog.sources.overrides import MOST_BAD_LINES, apply
from nbprov.catalog.sources.price_entry import PriceEntry, Reading
from nbprov.catalog.sources.price_sanity import ABSURD_FOR_CPUS
from nbprov.model.money import usd
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]
Price = tuple[str, str, str, int]


@pytest.fixture
def prices(write_v8: WriteV8) -> Path:
    rows = [
        {
            "InstanceType": "a",
            "vCPUs": 4,
            "MemoryGiB": 16,
            "Price": "1",
            "SpotPrice": "0.5",
            "Region": region,
            "AvailabilityZone": zone,
        }
        for region, zone in (("r1", "r1-a"), ("r1", "r1-b"), ("r2", "r2-a"))
    ]
    gpu = {
        "InstanceType": "g",
        "AcceleratorName": "L4",
        "AcceleratorCount": 1,
        "vCPUs": 8,
        "MemoryGiB": 32,
        "Price": "0.8",
        "Region": "r1",
    }
    return write_v8("nebius", [*rows, gpu])


@pytest.fixture
def override(prices: Path, tmp_path: Path) -> Callable[[str], Catalog]:
    """The catalogue with this text as the user's override file."""

    def make(text: str) -> Catalog:
        folder = tmp_path / "overrides"
        folder.mkdir(exist_ok=True)
        (folder / "nebius.csv").write_text(text, encoding="utf-8")
        return Catalog.open(prices, cache=tmp_path / "cache", overrides=folder)

    return make


def on_demand(catalog: Catalog) -> dict[tuple[str, str, str], int]:
    return {
        (o.instance_type, o.region, o.zone): o.hourly
        for o in catalog.offers(Query(market=Market.ON_DEMAND))
    }


def test_a_price_is_changed_everywhere_or_in_a_place(override: Callable[[str], Catalog]) -> None:
    catalog = override("InstanceType,Region,AvailabilityZone,Price\na,,,2\nA,R1,r1-b,3\n")
    assert on_demand(catalog) == {
        ("a", "r1", "r1-a"): usd(2),
        ("a", "r1", "r1-b"): usd(3),
        ("a", "r2", "r2-a"): usd(2),
        ("g", "r1", ""): usd("0.8"),
    }
    (applied,) = catalog.info("nebius").overrides
    assert (applied.file, applied.changed, applied.added, applied.hidden, applied.bad) == (
        "overrides/nebius.csv",
        3,
        0,
        0,
        [],
    )
    offer = catalog.offers(Query(instance_type="a", zone="r1-b", market=Market.ON_DEMAND))[0]
    assert offer.source == "your override overrides/nebius.csv"


def test_a_spot_price_is_changed_apart(override: Callable[[str], Catalog]) -> None:
    catalog = override("InstanceType,SpotPrice\na,0.25\n")
    spot = catalog.offers(Query(market=Market.SPOT))
    assert {offer.hourly for offer in spot} == {usd("0.25")}
    assert {offer.source for offer in spot} == {"your override overrides/nebius.csv"}
    assert not any(
        offer.source.startswith("your") for offer in catalog.offers(Query(market=Market.ON_DEMAND))
    )


@pytest.mark.parametrize("yes", ["yes", "TRUE", "1"])
def test_rows_are_hidden_by_type_accelerator_or_place(
    override: Callable[[str], Catalog], yes: str
) -> None:
    assert set(on_demand(override(f"InstanceType,Region,Hide\na,r1,{yes}\n"))) == {
        ("a", "r2", "r2-a"),
        ("g", "r1", ""),
    }
    catalog = override(f"AcceleratorName,Hide\nl4,{yes}\n")
    assert "L4" not in catalog.accelerators()
    assert catalog.info("nebius").overrides[0].hidden == 1
    assert set(on_demand(override(f"Region,Hide\nr1,{yes}\n"))) == {("a", "r2", "r2-a")}


def test_a_row_is_added_with_the_sizes_of_its_type(override: Callable[[str], Catalog]) -> None:
    catalog = override("InstanceType,Region,Price,SpotPrice\ng,r9,0.7,0.3\n")
    offers = catalog.offers(Query(region="r9"))
    assert [
        (o.accelerator, o.accelerator_count, o.vcpus, o.memory_gib, o.market.value, o.hourly)
        for o in offers
    ] == [
        ("L4", 1.0, 8.0, 32.0, "spot", usd("0.3")),
        ("L4", 1.0, 8.0, 32.0, "on-demand", usd("0.7")),
    ]
    assert catalog.info("nebius").overrides[0].added == 1


def test_a_machine_nobody_lists_is_added(override: Callable[[str], Catalog]) -> None:
    text = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo\n"
    text += "lab-8,H100,8,96,1024,5,cellar,\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\"\n"
    (offer,) = override(text).offers(Query(accelerator="H100"))
    assert (offer.gpus, offer.accelerator_memory_gib, offer.vcpus, offer.region) == (
        "H100:8",
        80.0,
        96.0,
        "cellar",
    )


def test_a_cloud_without_prices_can_be_made_of_overrides_alone(
    prices: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "overrides" / "mycloud"
    folder.mkdir(parents=True)
    (folder / "machines.csv").write_text(
        "InstanceType,Region,Price,vCPUs\nbox,attic,0.1,8\n", encoding="utf-8"
    )
    catalog = Catalog.open(prices, cache=tmp_path / "cache", overrides=folder.parent)
    assert catalog.clouds() == ["mycloud", "nebius"]
    assert catalog.info("mycloud").origin == ""


def test_the_users_word_is_not_held_to_be_absurd(override: Callable[[str], Catalog]) -> None:
    catalog = override("InstanceType,Region,Price\na,r1,0.000001\n")
    assert on_demand(catalog)["a", "r1", "r1-a"] == 1
    assert ABSURD_FOR_CPUS not in catalog.info("nebius").left_out


def test_bad_lines_are_told_with_their_line_and_the_rest_holds(
    override: Callable[[str], Catalog],
) -> None:
    text = "\n".join(
        [
            "InstanceType,Region,Price,SpotPrice,Hide,vCPUs",
            "# a remark",
            "a,r1,cheap,,,",
            "",
            "a,r1,-1,,,",
            "a,r1,1,,perhaps,",
            "a,r1,,,,",
            "new,,4,,,",
            "new,r1,,,,9",
            ",,4,,,",
            ",r1,4,,,",
            "ghost,r1,,,yes,",
            "a,r1,1,,,,one,too,many",
            "a,r2,7",
        ]
    )
    catalog = override(text + "\n")
    problems = catalog.problems()
    assert [(p.line, p.code) for p in problems] == [
        (line, "catalog.override") for line in (3, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    ]
    assert str(problems[0]) == "nebius: overrides/nebius.csv line 3: Price is 'cheap', not a price"
    assert on_demand(catalog)["a", "r2", "r2-a"] == usd(7)
    assert on_demand(catalog)["a", "r1", "r1-a"] == usd(1)


def test_thousands_of_bad_lines_are_counted_not_told(override: Callable[[str], Catalog]) -> None:
    catalog = override("InstanceType,Price\n" + "a,x\n" * 1000)
    assert len(catalog.problems()) == MOST_BAD_LINES + 1
    assert catalog.problems()[-1].message == f"{1000 - MOST_BAD_LINES} more lines were not used"


@pytest.mark.parametrize(
    "data", [b"", b"what,is,this\n1,2,3\n", b"\xff\xfe\x00\x00", b'InstanceType,Price\n"unclosed']
)
def test_a_file_in_no_form_changes_nothing(
    data: bytes, prices: Path, override: Callable[[str], Catalog], tmp_path: Path
) -> None:
    before = on_demand(override("InstanceType,Price\n"))
    (tmp_path / "overrides" / "nebius.csv").write_bytes(data)
    catalog = Catalog.open(prices, cache=tmp_path / "cache", overrides=tmp_path / "overrides")
    assert on_demand(catalog) == before
    assert [problem.file for problem in catalog.problems()] == ["overrides/nebius.csv"]


def test_custom_files_beside_the_prices_are_overrides_too(prices: Path, tmp_path: Path) -> None:
    (prices / "nebius" / "mine_custom.csv").write_text(
        "InstanceType,Price\ng,0.5\n", encoding="utf-8"
    )
    folder = tmp_path / "overrides"
    folder.mkdir()
    (folder / "nebius.csv").write_text("InstanceType,Price\ng,0.6\n", encoding="utf-8")
    catalog = Catalog.open(prices, cache=tmp_path / "cache", overrides=folder)
    assert on_demand(catalog)["g", "r1", ""] == usd("0.6")
    assert [applied.file for applied in catalog.info("nebius").overrides] == [
        "nebius/mine_custom.csv",
        "overrides/nebius.csv",
    ]


def test_attached_accelerators_are_overridden_as_the_machines_they_are(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog]
) -> None:
    host = {
        "InstanceType": "n1-standard-4",
        "vCPUs": 4,
        "MemoryGiB": 15,
        "Price": "0.2",
        "Region": "r",
        "AvailabilityZone": "r-a",
    }
    device = {
        "AcceleratorName": "T4",
        "AcceleratorCount": 1,
        "Price": "0.35",
        "Region": "r",
        "AvailabilityZone": "r-a",
    }
    folder = write_v8("gcp", [host, device])
    (folder / "gcp" / "my_custom.csv").write_text(
        "InstanceType,Price\nn1-standard-4+1xT4,0.44\n", encoding="utf-8"
    )
    assert [o.hourly for o in open_catalog(folder).offers(Query(accelerator="T4"))] == [usd("0.44")]


CELLS = st.text(alphabet="abr1,.-x\"'\n;$ 0", max_size=12)


@given(st.lists(st.lists(CELLS, max_size=8), max_size=8))
def test_no_text_at_all_breaks_the_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    body = "\n".join(",".join(cells) for cells in lines)
    path.write_text(
        "InstanceType,Region,Price,AvailabilityZone,Hide,SpotPrice\n" + body, encoding="utf-8"
    )
    entry = PriceEntry(
        "x",
        "r",
        "",
        "a",
        "",
        0.0,
        None,
        "",
        4.0,
        16.0,
        "",
        1,
        None,
        "s",
        "2026-01-01",
        "s",
        "2026-01-01",
    )
    reading = Reading([entry])
    (done,) = apply(reading, [path], "x")
    assert len(reading.entries) == 1 + done.added - done.hidden
    assert all((e.on_demand or 1) > 0 and (e.spot or 1) > 0 for e in reading.entries)
