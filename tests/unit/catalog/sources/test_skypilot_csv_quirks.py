"""Every quirk that hosted price files are known for, cloud by cloud, through the whole way into the
catalogue.

Quirks of single cells are in `test_catalog_v8`, GCP's hosts in `test_catalog_hosts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.catalog.sources.price_sanity import FLAT
from nbprov.catalog.sources.skypilot_csv import NO_PRICE, PLACEHOLDER
from nbprov.catalog.sources.snapshot import write as write_own
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.model.resources import Compare, Quantity

WriteV8 = Callable[..., Path]
Open = Callable[..., Catalog]


def gpus(name: str, mib: float, count: int = 1, **more: object) -> str:
    return repr(
        {
            "Gpus": [
                {
                    "Name": name,
                    "Manufacturer": "NVIDIA",
                    "Count": count,
                    "MemoryInfo": {"SizeInMiB": mib},
                }
            ],
            **more,
        }
    )


def test_aws_rows_without_a_price_are_filtered_and_counted(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    base = {"AcceleratorName": "RTXPRO6000", "AcceleratorCount": 1, "vCPUs": 8, "MemoryGiB": 64}
    rows = [
        {**base, "InstanceType": "g7e.2xlarge", "Region": region, "Price": price}
        for region, price in (("us-east-1", "2.9"), ("us-east-2", ""), ("us-west-2", ""))
    ]
    catalog = open_catalog(write_v8("aws", rows))
    assert [offer.region for offer in catalog.offers(Query())] == ["us-east-1"]
    assert catalog.info("aws").left_out == {NO_PRICE: 2}


def test_aws_spot_stands_without_on_demand_and_zones_are_ids(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    row = {
        "InstanceType": "p5.48xlarge",
        "AcceleratorName": "H100",
        "AcceleratorCount": 8,
        "vCPUs": 192,
        "SpotPrice": "20",
        "Region": "us-east-1",
    }
    catalog = open_catalog(write_v8("aws", [{**row, "AvailabilityZone": "use1-az6"}]))
    (offer,) = catalog.offers(Query())
    assert (offer.market, offer.zone) == (Market.SPOT, "use1-az6")
    assert offer.source == "aws price file in the v8 layout"


@pytest.mark.parametrize("zone", ["", "NaN", "nan", "None"])
def test_a_zone_that_says_nothing_is_the_region(
    write_v8: WriteV8, open_catalog: Open, zone: str
) -> None:
    row = {
        "InstanceType": "t",
        "vCPUs": 4,
        "Price": "1",
        "Region": "eastus",
        "AvailabilityZone": zone,
    }
    catalog = open_catalog(write_v8("azure", [row]))
    assert [offer.zone for offer in catalog.offers(Query())] == [""]
    assert catalog.zones("azure", "eastus") == []


REGIONS = ("us-central1", "us-east4", "europe-west4", "asia-southeast1", "us-west1")


def gcp_split(region: str, h100: str, host: str) -> list[dict[str, object]]:
    """As the hosted file has it: the accelerators on one line, their host on another."""
    place = {"Region": region, "AvailabilityZone": f"{region}-a"}
    return [
        {
            **place,
            "AcceleratorName": "H100",
            "AcceleratorCount": 8,
            "GpuInfo": gpus("H100", 81920, 8),
            "Price": h100,
            "SpotPrice": "23.9",
        },
        {
            **place,
            "InstanceType": "a3-highgpu-8g",
            "vCPUs": 208,
            "MemoryGiB": 1872,
            "Price": host,
            "SpotPrice": "3.5",
        },
    ]


def test_gcp_split_of_host_and_accelerators_is_added_up_for_every_kind(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    place = {"Region": "us-central1", "AvailabilityZone": "us-central1-a"}
    a100 = [
        {
            **place,
            "AcceleratorName": "A100",
            "AcceleratorCount": 1,
            "Price": "2.933908",
            "SpotPrice": "1.1",
        },
        {
            **place,
            "InstanceType": "a2-highgpu-1g",
            "vCPUs": 12,
            "MemoryGiB": 85,
            "Price": "0.739",
            "SpotPrice": "0.2",
        },
    ]
    catalog = open_catalog(write_v8("gcp", [*gcp_split("us-central1", "75", "13.5"), *a100]))
    found = {(o.instance_type, o.gpus, o.market.value): o.hourly for o in catalog.offers(Query())}
    assert found == {
        ("a3-highgpu-8g", "H100:8", "on-demand"): usd("88.5"),
        ("a3-highgpu-8g", "H100:8", "spot"): usd("27.4"),
        ("a2-highgpu-1g", "A100:1", "on-demand"): usd("3.672908"),
        ("a2-highgpu-1g", "A100:1", "spot"): usd("1.3"),
    }


def test_gcp_wrong_part_in_many_regions_is_hidden_where_others_are_right(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    wrong = [row for region in REGIONS for row in gcp_split(region, "28", "13.5")]
    right = [
        row for region in ("europe-west1", "us-east5") for row in gcp_split(region, "75", "13.5")
    ]
    catalog = open_catalog(write_v8("gcp", [*wrong, *right]))
    shown = {(o.region, o.market.value) for o in catalog.offers(Query(market=Market.ON_DEMAND))}
    assert shown == {("europe-west1", "on-demand"), ("us-east5", "on-demand")}
    assert catalog.info("gcp").left_out == {FLAT: 5}
    assert len(catalog.select(Query(market=Market.SPOT))) == 7


def test_gcp_wrong_part_in_all_regions_is_hidden_by_what_was_known_before(
    write_v8: WriteV8, nbprov_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One price everywhere, where the shipped list prices its regions apart and far dearer.

    A wrong line of the provider's list.
    """
    shipped = [
        PriceEntry(
            "gcp",
            region,
            f"{region}-a",
            "a3-highgpu-8g",
            "H100",
            8.0,
            80.0,
            "NVIDIA",
            208.0,
            1872.0,
            "",
            usd(88 + i),
            None,
            "s",
            "2026-01-01",
            "s",
            "2026-01-01",
        )
        for i, region in enumerate(REGIONS)
    ]
    write_own(tmp_path / "shipped" / "gcp", shipped, [("A", "2026-01-01", "s")])
    folder = write_v8(
        "gcp",
        [row for region in REGIONS for row in gcp_split(region, "33.6", "13.5")],
        folder="fresh",
    )
    (nbprov_home / "catalogs").mkdir(parents=True)
    (folder / "gcp").rename(nbprov_home / "catalogs" / "gcp")
    monkeypatch.setattr("nbprov.catalog.catalog.shipped_folder", lambda: tmp_path / "shipped")
    catalog = Catalog.open()
    assert catalog.info("gcp").origin == "your copy"
    assert catalog.info("gcp").left_out == {FLAT: 5}
    assert {offer.market for offer in catalog.offers(Query())} == {Market.SPOT}


def test_gcp_part_with_one_price_everywhere_is_no_error_by_itself(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    rows = [row for region in REGIONS for row in gcp_split(region, "75", "13.5")]
    catalog = open_catalog(write_v8("gcp", rows))
    assert len(catalog.select(Query(market=Market.ON_DEMAND))) == 5
    assert catalog.info("gcp").left_out == {}


def test_gcp_tpu_placeholders(write_v8: WriteV8, open_catalog: Open) -> None:
    place = {"Region": "us-central1", "AvailabilityZone": "us-central1-a"}
    rows = [
        {
            **place,
            "InstanceType": "TPU-VM",
            "AcceleratorName": "tpu-v2-8",
            "AcceleratorCount": 1,
            "Price": "700",
            "SpotPrice": "",
        },
        {
            **place,
            "InstanceType": "TPU-VM",
            "AcceleratorName": "tpu-v3-8",
            "AcceleratorCount": 1,
            "Price": "8",
            "SpotPrice": "2.4",
        },
    ]
    catalog = open_catalog(write_v8("gcp", rows))
    assert catalog.accelerators() == ["tpu-v3-8"]
    assert catalog.info("gcp").left_out == {PLACEHOLDER: 1}
    assert catalog.accelerator_info("tpu-v3-8").maker == "Google"


def test_vast(write_v8: WriteV8, open_catalog: Open) -> None:
    row = {
        "InstanceType": "4x-RTX_4090-32-65536",
        "AcceleratorName": "RTX4090",
        "AcceleratorCount": "4",
        "vCPUs": "32",
        "MemoryGiB": "64",
        "GpuInfo": gpus("RTX4090", 98256, 4, TotalGpuMemoryInMiB=98256),
        "Price": "1.60",
        "SpotPrice": "0.00",
    }
    rows = [
        {**row, "Region": region} for region in ("Texas, US, NA", ", US, NA", "Bács-Kiskun, HU, EU")
    ]
    catalog = open_catalog(write_v8("vast", rows))
    offers = catalog.offers(Query())
    assert {offer.market for offer in offers} == {Market.ON_DEMAND}
    assert {offer.accelerator_memory_gib for offer in offers} == {23.988}
    assert catalog.regions("vast") == [", US, NA", "Bács-Kiskun, HU, EU", "Texas, US, NA"]
    assert len(catalog.select(Query(region="us"))) == 2
    assert len(catalog.select(catalog.query("24GB:4"))) == 3


def test_runpod(write_v8: WriteV8, open_catalog: Open) -> None:
    rows = [
        {
            "InstanceType": "1x_L4_SECURE",
            "AcceleratorName": "L4",
            "AcceleratorCount": "1.0",
            "vCPUs": "4.0",
            "MemoryGiB": "24.0",
            "GpuInfo": gpus("L4", 24, TotalGpuMemoryInMiB=24),
            "Price": "0.43",
            "SpotPrice": "0.43",
            "Region": region,
            "AvailabilityZone": zone,
        }
        for region, zone in (("CA", "CA-MTL-1"), ("US", "US-TX-1"))
    ]
    catalog = open_catalog(write_v8("runpod", rows))
    assert {offer.accelerator_memory_gib for offer in catalog.offers(Query())} == {24.0}
    assert {offer.hourly for offer in catalog.offers(Query())} == {usd("0.43")}
    assert len(catalog.select(Query(market=Market.SPOT))) == 2
    assert (
        len(catalog.select(Query(accelerator="L4", memory=Quantity(Compare.AT_LEAST, 500)))) == 4
    )  # typical, no limit


def test_cudo_lambda_and_nebius(write_v8: WriteV8, open_catalog: Open) -> None:
    cudo = {
        "InstanceType": "epyc_8x",
        "AcceleratorName": "A40",
        "AcceleratorCount": "8.0",
        "vCPUs": "96",
        "MemoryGiB": "384",
        "Price": "3.2",
        "Region": "se-1",
    }
    cudo["GpuInfo"] = repr(
        {
            "Gpus": [
                {
                    "Name": "A40",
                    "Manufacturer": "NVIDIA",
                    "Count": "8",
                    "MemoryInfo": {"SizeInMiB": 49152},
                }
            ]
        }
    )
    write_v8("cudo", [cudo])
    info = gpus("A100", 40960, 8, TotalGpuMemoryInMiB=40960)
    write_v8(
        "lambda",
        [
            {
                "InstanceType": "gpu_8x_a100",
                "AcceleratorName": "A100",
                "AcceleratorCount": 8,
                "GpuInfo": info,
                "Price": "10.32",
                "Region": "us-east-1",
            }
        ],
    )
    folder = write_v8(
        "nebius",
        [
            {
                "InstanceType": "cpu-d3_4vcpu",
                "AcceleratorCount": 0,
                "vCPUs": 4,
                "MemoryGiB": 16,
                "Price": "0.1",
                "Region": "eu-north1",
            }
        ],
    )
    catalog = open_catalog(folder)
    assert {(o.cloud, o.gpus, o.accelerator_memory_gib) for o in catalog.offers(Query())} == {
        ("cudo", "A40:8", 48.0),
        ("lambda", "A100:8", 40.0),
        ("nebius", "–", None),
    }


def test_hyperstack_null_maker_and_one_type_of_two_sizes(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    info = (
        "{'Gpus': [{'Name': 'H100-SXM', 'Manufacturer': null, 'Count': 8, 'MemoryInfo':"
        " {'SizeInMiB': 81920}}], 'TotalGpuMemoryInMiB': 655360}"
    )
    row = {
        "InstanceType": "n3-H100-SXM5x8",
        "AcceleratorName": "H100-SXM",
        "AcceleratorCount": 8,
        "vCPUs": 192,
        "GpuInfo": info,
        "Price": "19.2",
    }
    catalog = open_catalog(
        write_v8(
            "hyperstack",
            [
                {**row, "MemoryGiB": 1800, "Region": "CANADA-1"},
                {**row, "MemoryGiB": 960, "Region": "US-1"},
            ],
        )
    )
    assert {
        (o.region, o.memory_gib, o.accelerator_memory_gib) for o in catalog.offers(Query())
    } == {
        ("CANADA-1", 1800.0, 80.0),
        ("US-1", 960.0, 80.0),
    }
    assert catalog.accelerator_info("H100-SXM").maker == "NVIDIA"


def test_primeintellect_json_column_order_doubled_memory_and_spot_type(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    info = json.dumps(
        {
            "Gpus": [
                {
                    "Name": "A100_80GB",
                    "Manufacturer": "NVIDIA",
                    "Count": 2,
                    "MemoryInfo": {"SizeInMiB": 81920},
                }
            ],
            "TotalGpuMemoryInMiB": 327680,
        }
    )
    header = (
        "InstanceType",
        "AcceleratorName",
        "AcceleratorCount",
        "vCPUs",
        "MemoryGiB",
        "Price",
        "Region",
        "GpuInfo",
        "SpotPrice",
    )
    row = {
        "AcceleratorName": "A100-80GB",
        "AcceleratorCount": 2,
        "vCPUs": 32,
        "MemoryGiB": 240,
        "Region": "FI",
        "GpuInfo": info,
    }
    rows = [
        {**row, "InstanceType": "dc__2xA100_80GB__32__240", "Price": 2.6},
        {**row, "InstanceType": "dc__2xA100_80GB__32__240__SPOT", "Price": 1.1},
    ]
    catalog = open_catalog(write_v8("primeintellect", rows, header=header))
    assert {
        (o.instance_type[-6:], o.market.value, o.hourly, o.accelerator_memory_gib)
        for o in catalog.offers(Query())
    } == {
        ("__SPOT", "spot", usd("1.1"), 80.0),
        ("2__240", "on-demand", usd("2.6"), 80.0),
    }
