"""The v8 layout with every quirk its files are known to have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, CatalogError, Query
from nbprov.catalog.sources import skypilot_csv
from nbprov.catalog.sources.skypilot_csv import NO_PRICE, device_of
from nbprov.model.money import usd
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]
Open = Callable[..., Catalog]


def gpu_info(
    name: str, count: object, mib: object, total: object, maker: str | None = "NVIDIA"
) -> str:
    return repr(
        {
            "Gpus": [
                {
                    "Name": name,
                    "Manufacturer": maker,
                    "Count": count,
                    "MemoryInfo": {"SizeInMiB": mib},
                }
            ],
            "TotalGpuMemoryInMiB": total,
        }
    )


def test_columns_are_found_by_name_in_any_order(write_v8: WriteV8, open_catalog: Open) -> None:
    header = (
        "Region",
        "Price",
        "Extra",
        "AcceleratorCount",
        "AcceleratorName",
        "MemoryGiB",
        "InstanceType",
        "vCPUs",
    )
    row = {
        "Region": "US",
        "Price": "2.5",
        "Extra": "x",
        "AcceleratorCount": "2.0",
        "AcceleratorName": "A40",
        "MemoryGiB": "96",
        "InstanceType": "t",
    }
    catalog = open_catalog(write_v8("primeintellect", [row], header=header))
    (offer,) = catalog.offers(Query())
    assert (offer.accelerator, offer.accelerator_count, offer.memory_gib, offer.vcpus) == (
        "A40",
        2.0,
        96.0,
        None,
    )
    assert offer.hourly == usd("2.5")
    assert offer.market is Market.ON_DEMAND


def test_a_missing_column_is_named(write_v8: WriteV8, open_catalog: Open) -> None:
    catalog = open_catalog(
        write_v8("lambda", [], header=("InstanceType", "AcceleratorName", "Region"))
    )
    with pytest.raises(CatalogError, match="AcceleratorCount, Price") as caught:
        catalog.clouds()
    assert caught.value.code == "catalog.columns"


def test_zero_and_empty_prices_are_unknown(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {
            "InstanceType": "a",
            "AcceleratorName": "A40",
            "AcceleratorCount": "1",
            "Price": "0.40",
            "SpotPrice": "0.00",
            "Region": ", US, NA",
        },
        {
            "InstanceType": "b",
            "AcceleratorName": "A40",
            "AcceleratorCount": "1",
            "Price": "",
            "SpotPrice": "",
            "Region": "Texas, US, NA",
        },
        {
            "InstanceType": "c",
            "AcceleratorName": "A40",
            "AcceleratorCount": "1",
            "Price": "nan",
            "SpotPrice": "0.1",
            "Region": "Texas, US, NA",
        },
    ]
    catalog = open_catalog(write_v8("vast", rows))
    assert [(o.instance_type, o.market.value) for o in catalog.offers(Query())] == [
        ("c", "spot"),
        ("a", "on-demand"),
    ]
    assert catalog.info("vast").left_out == {NO_PRICE: 1}
    assert catalog.regions("vast") == [", US, NA", "Texas, US, NA"]
    assert catalog.select(Query(region="texas, us, na")).column("is_us").all()


def test_spot_sold_as_its_own_type(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {
            "InstanceType": "x__1xV100__SPOT",
            "AcceleratorName": "V100",
            "AcceleratorCount": "1",
            "Price": "0.05",
            "Region": "FI",
        }
    ]
    (offer,) = open_catalog(write_v8("primeintellect", rows)).offers(Query())
    assert offer.market is Market.SPOT


@pytest.mark.parametrize(
    ("cloud", "count", "info", "expected"),
    [
        ("aws", 8, gpu_info("A100", 8, 40960, 327680), (40.0, "NVIDIA")),
        # GiB under a name that says MiB
        ("runpod", 1, gpu_info("L4", 1, 24, 24), (24.0, "NVIDIA")),
        # the whole machine's memory
        ("vast", 4, gpu_info("RTX4090", "4.0", 98256, 98256), (23.988, "NVIDIA")),
        ("vast", 4, gpu_info("RTX4090", 4, 24564, 98256), (23.988, "NVIDIA")),
        # the total says one device's
        ("lambda", 8, gpu_info("A100", 8, 40960, 40960), (40.0, "NVIDIA")),
        ("hyperstack", 1, json.dumps({"Gpus": [{"Name": "L40", "Manufacturer": None, "MemoryInfo": {"SizeInMiB": 49152}}]}), (48.0, "NVIDIA")),
        ("hyperstack", 1, "{'Gpus': [{'Name': 'L40', 'Manufacturer': null, 'MemoryInfo':"
            " {'SizeInMiB': 49152}}]}", (48.0, "NVIDIA")),
        ("primeintellect", 2, json.dumps({"Gpus": [{"Manufacturer": "NVIDIA", "MemoryInfo": {"SizeInMiB": 81920}}], "TotalGpuMemoryInMiB": 327680}), (80.0, "NVIDIA")),
        ("gcp", 1, "TPU", (None, "NVIDIA")),
        ("azure", 1, "", (None, "NVIDIA")),
    ],
)  # fmt: skip
def test_device_memory(
    cloud: str, count: int, info: str, expected: tuple[float | None, str]
) -> None:
    assert device_of(info, "GPU", float(count), cloud) == expected


def test_maker_of_what_is_not_nvidia() -> None:
    assert device_of("", "MI300X", 8.0, "azure") == (None, "AMD")
    assert device_of(gpu_info("Trainium", 16, 32768, 524288, "AWS"), "Trainium", 16.0, "aws") == (
        32.0,
        "AWS",
    )


def test_accelerator_count_zero_on_cpu_rows(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {
            "InstanceType": "cpu-d3_4vcpu-16gb",
            "AcceleratorCount": "0",
            "vCPUs": "4",
            "MemoryGiB": "16",
            "Price": "0.0992",
            "Region": "eu-north1",
        }
    ]
    (offer,) = open_catalog(write_v8("nebius", rows)).offers(Query(has_accelerator=False))
    assert (offer.accelerator, offer.accelerator_count) == ("", 0.0)


def test_malformed_lines_are_left_out_and_counted(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {"InstanceType": "good", "Price": "1", "vCPUs": "8", "Region": "r"},
        {"InstanceType": "negative", "Price": "-1", "Region": "r"},
        {"InstanceType": "words", "Price": "cheap", "Region": "r"},
        {"InstanceType": "inf", "Price": "1", "vCPUs": "inf", "Region": "r"},
        {"InstanceType": "nowhere", "Price": "1", "Region": ""},
        {
            "InstanceType": "none",
            "AcceleratorName": "A40",
            "AcceleratorCount": "",
            "Price": "1",
            "Region": "r",
        },
    ]
    folder = write_v8("lambda", rows)
    with (folder / "lambda" / "vms.csv").open("a", encoding="utf-8") as file:
        file.write("torn,line\n\n")
    catalog = open_catalog(folder)
    assert [o.instance_type for o in catalog.offers(Query())] == ["good"]
    assert catalog.info("lambda").left_out == {"malformed line": 6}


def test_the_dearer_of_two_lines_is_kept(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {"InstanceType": "t", "Price": price, "vCPUs": "4", "Region": "r"}
        for price in ("1", "3", "2", "3")
    ]
    catalog = open_catalog(write_v8("lambda", rows))
    assert [o.hourly for o in catalog.offers(Query())] == [usd(3)]
    assert sum(catalog.info("lambda").left_out.values()) == 3


def test_one_type_of_two_sizes_in_two_regions(write_v8: WriteV8, open_catalog: Open) -> None:
    base = {
        "InstanceType": "n3-H100-SXM5x8",
        "AcceleratorName": "H100-SXM",
        "AcceleratorCount": "8",
        "vCPUs": "192",
        "Price": "19.2",
    }
    rows = [
        {**base, "MemoryGiB": "1800", "Region": "CANADA-1"},
        {**base, "MemoryGiB": "960", "Region": "US-1"},
    ]
    catalog = open_catalog(write_v8("hyperstack", rows))
    assert {o.region: o.memory_gib for o in catalog.offers(Query())} == {
        "CANADA-1": 1800.0,
        "US-1": 960.0,
    }


def test_the_date_is_that_of_the_file(write_v8: WriteV8, open_catalog: Open) -> None:
    folder = write_v8("lambda", [{"InstanceType": "t", "Price": "1", "vCPUs": "4", "Region": "r"}])
    os.utime(folder / "lambda" / "vms.csv", (1_750_000_000, 1_750_000_000))
    (offer,) = open_catalog(folder).offers(Query())
    assert offer.as_of == "2025-06-15"
    assert offer.source == "lambda price file in the v8 layout"


def test_byte_order_mark_and_carriage_returns(tmp_path: Path, open_catalog: Open) -> None:
    place = tmp_path / "p" / "do"
    place.mkdir(parents=True)
    text = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region\r\ng,H100,1,4.41,nyc2\r\n"
    (place / "vms.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert open_catalog(tmp_path / "p").offers(Query())[0].gpus == "H100:1"


def test_a_binary_file_is_refused_with_a_word(tmp_path: Path, open_catalog: Open) -> None:
    place = tmp_path / "p" / "do"
    place.mkdir(parents=True)
    (place / "vms.csv").write_bytes(b"\xff\xfe\x00\x01" * 100)
    with pytest.raises(CatalogError, match="cannot be read"):
        open_catalog(tmp_path / "p").clouds()


def test_the_later_folder_wins_a_cloud_whole(write_v8: WriteV8, open_catalog: Open) -> None:
    old = write_v8(
        "lambda", [{"InstanceType": "old", "Price": "1", "vCPUs": "4", "Region": "r"}], folder="old"
    )
    write_v8(
        "nebius",
        [{"InstanceType": "kept", "Price": "1", "vCPUs": "4", "Region": "r"}],
        folder="old",
    )
    new = write_v8(
        "lambda", [{"InstanceType": "new", "Price": "2", "vCPUs": "4", "Region": "r"}], folder="new"
    )
    assert sorted(o.instance_type for o in open_catalog(old, new).offers(Query())) == [
        "kept",
        "new",
    ]


def test_a_folder_without_prices_is_named(tmp_path: Path, open_catalog: Open) -> None:
    with pytest.raises(CatalogError, match="no price files"):
        open_catalog(tmp_path / "nothing").clouds()
    assert open_catalog().clouds() == []
    assert len(open_catalog().select(Query(accelerator="A100"))) == 0


@pytest.mark.parametrize("text", ["1e400", "1e12", "-1", "inf", "1000000.01"])
def test_what_no_machine_costs_is_no_price(text: str) -> None:
    with pytest.raises(ValueError, match=r"price|amount"):
        skypilot_csv.price(text)
