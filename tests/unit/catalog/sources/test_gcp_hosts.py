"""GCP accelerators that are sold apart become whole machines, however the file lists them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.sources.gcp_hosts import HOST_ALONE, NO_HOST, fixed_accelerator
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.model.resources import Compare, Quantity

WriteV8 = Callable[..., Path]
Open = Callable[..., Catalog]


def host(
    name: str, vcpus: float, gib: float, price: str, zone: str = "us-central1-a", spot: str = ""
) -> dict[str, object]:
    return {
        "InstanceType": name,
        "vCPUs": vcpus,
        "MemoryGiB": gib,
        "Price": price,
        "SpotPrice": spot,
        "Region": "us-central1",
        "AvailabilityZone": zone,
    }


def device(
    name: str, count: float, price: str, zone: str = "us-central1-a", spot: str = ""
) -> dict[str, object]:
    return {
        "AcceleratorName": name,
        "AcceleratorCount": count,
        "Price": price,
        "SpotPrice": spot,
        "Region": "us-central1",
        "AvailabilityZone": zone,
    }


N1 = [
    host("n1-standard-2", 2, 7.5, "0.10"),
    host("n1-standard-4", 4, 15, "0.20", spot="0.05"),
    host("n1-standard-8", 8, 30, "0.40"),
    host("n1-highcpu-4", 4, 3.6, "0.15"),
    host("n1-highmem-4", 4, 26, "0.25"),
    host("n1-standard-96", 96, 360, "4.60"),
]


def test_a_row_is_a_whole_machine_with_the_usual_host_first(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    catalog = open_catalog(write_v8("gcp", [*N1, device("T4", 1, "0.35", spot="0.10")]))
    offers = catalog.offers(Query(accelerator="T4", count=1, market=Market.ON_DEMAND))
    assert [(o.instance_type, o.hourly, o.vcpus) for o in offers] == [
        ("n1-standard-4+1xT4", usd("0.55"), 4.0),
        ("n1-standard-8+1xT4", usd("0.75"), 8.0),
    ]
    assert offers[0].quota_family == "T4"
    (spot,) = catalog.offers(Query(accelerator="T4", market=Market.SPOT))
    assert (spot.instance_type, spot.hourly) == ("n1-standard-4+1xT4", usd("0.15"))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        (Query(accelerator="T4", cpus=Quantity(Compare.EXACTLY, 2)), "n1-standard-2+1xT4"),
        (
            Query(
                accelerator="T4",
                cpus=Quantity(Compare.AT_LEAST, 2),
                memory=Quantity(Compare.PER_VCPU, 3),
            ),
            "n1-standard-2+1xT4",
        ),
        (Query(accelerator="T4", memory=Quantity(Compare.EXACTLY, 26)), "n1-highmem-4+1xT4"),
        (Query(accelerator="T4", cpus=Quantity(Compare.EXACTLY, 8)), "n1-standard-8+1xT4"),
        (Query(accelerator="T4", instance_type="n1-highcpu-4"), "n1-highcpu-4+1xT4"),
        (Query(accelerator="T4", instance_type="n1-standard-8+1xT4"), "n1-standard-8+1xT4"),
        (Query(instance_type="n1-standard-8"), "n1-standard-8"),
    ],
)
def test_who_asks_for_a_size_gets_that_host(
    query: Query, first: str, write_v8: WriteV8, open_catalog: Open
) -> None:
    catalog = open_catalog(write_v8("gcp", [*N1, device("T4", 1, "0.35")]))
    assert catalog.offers(query)[0].instance_type == first


def test_no_host_beyond_what_google_allows(write_v8: WriteV8, open_catalog: Open) -> None:
    catalog = open_catalog(
        write_v8("gcp", [*N1, device("V100", 1, "2.48"), device("V100", 3, "7.44")])
    )
    types = {
        o.instance_type
        for o in catalog.offers(Query(accelerator="V100", cpus=Quantity(Compare.AT_LEAST, 1)))
    }
    assert types == {
        f"{name['InstanceType']}+1xV100" for name in N1 if float(str(name["vCPUs"])) <= 12
    }
    assert catalog.info("gcp").left_out == {NO_HOST: 1}


def test_host_price_of_the_region_where_the_zone_has_none(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    catalog = open_catalog(write_v8("gcp", [*N1, device("T4", 1, "0.35", zone="us-central1-x")]))
    assert catalog.offers(Query(accelerator="T4"))[0].zone == "us-central1-x"


def test_a_file_that_splits_every_machine_is_added_up(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    rows = [
        host("a2-highgpu-8g", 96, 680, "6.00", spot="2.00"),
        device("A100", 8, "23.50", spot="8.00"),
        host("g2-standard-24", 24, 96, "0.90"),
    ]
    catalog = open_catalog(
        write_v8("gcp", [*rows, device("L4", 2, "1.10"), host("a3-highgpu-8g", 208, 1872, "9")])
    )
    machines = {
        (o.instance_type, o.market.value): (o.gpus, o.hourly) for o in catalog.offers(Query())
    }
    assert machines == {
        ("a2-highgpu-8g", "on-demand"): ("A100:8", usd("29.5")),
        ("a2-highgpu-8g", "spot"): ("A100:8", usd("10")),
        ("g2-standard-24", "on-demand"): ("L4:2", usd("2")),
    }
    assert catalog.info("gcp").left_out == {HOST_ALONE: 1}


def test_a_file_that_has_whole_machines_is_left_as_it_is(
    write_v8: WriteV8, open_catalog: Open
) -> None:
    whole = {
        **host("a2-highgpu-8g", 96, 680, "29.5"),
        "AcceleratorName": "A100",
        "AcceleratorCount": 8,
    }
    assert open_catalog(write_v8("gcp", [whole])).offers(Query())[0].hourly == usd("29.5")


def test_tpu_placeholders_are_not_prices(write_v8: WriteV8, open_catalog: Open) -> None:
    catalog = open_catalog(
        write_v8("gcp", [*N1, device("tpu-v3-8", 1, "700.0"), device("tpu-v2-8", 1, "4.5")])
    )
    assert not any(name.startswith("tpu") for name in catalog.accelerators())
    assert catalog.info("gcp").left_out == {"placeholder price": 1, NO_HOST: 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a2-megagpu-16g", ("A100", 16.0)),
        ("a2-ultragpu-2g", ("A100-80GB", 2.0)),
        ("a3-megagpu-8g", ("H100-MEGA", 8.0)),
        ("g2-standard-16", ("L4", 1.0)),
        ("g4-standard-96", ("RTXPRO6000", 2.0)),
        ("g2-standard-5", None),
        ("n1-standard-8", None),
    ],
)
def test_fixed_accelerators(name: str, expected: tuple[str, float] | None) -> None:
    assert fixed_accelerator(name) == expected


def test_shipped_t4_and_v100_are_whole_machines(shipped: Catalog) -> None:
    t4 = shipped.offers(Query(accelerator="T4", count=1, cloud="gcp", market=Market.ON_DEMAND))[0]
    assert (t4.instance_type, t4.vcpus, t4.memory_gib) == ("n1-standard-4+1xT4", 4.0, 15.0)
    assert usd("0.5") < t4.hourly < usd("0.6")
    v100 = shipped.offers(Query(accelerator="V100", count=8, cloud="gcp", market=Market.ON_DEMAND))[
        0
    ]
    assert v100.instance_type == "n1-standard-64+8xV100"
