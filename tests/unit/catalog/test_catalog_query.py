"""Every question gives what a plain loop over all offers gives, in the promised order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.catalog import MEMORY_IS_TYPICAL, Catalog, Query
from nbprov.catalog.vocabulary.instance_families import GENERAL_PURPOSE, family_of
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.resources import Compare, Quantity


def order(offer: Offer) -> tuple[object, ...]:
    return (
        offer.hourly,
        offer.cloud,
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.market is Market.SPOT,
    )


def live(
    number: int,
    *,
    hourly: int = usd("1.5"),
    cloud: str = "local",
    gpu: str = "A100",
    count: float = 8,
    **more: object,
) -> Offer:
    fields: dict[str, object] = {
        "region": "CZ",
        "zone": f"CZ-{number}",
        "instance_type": f"sim-{gpu}-{number}",
        "vcpus": 16.0,
        "memory_gib": 64.0,
        "market": Market.ON_DEMAND,
        "quota_family": "gpu",
        "accelerator_memory_gib": 40.0,
        "source": "local market (simulated)",
        "as_of": "2026-11-21",
    }
    return Offer(
        cloud=cloud, accelerator=gpu, accelerator_count=count, hourly=hourly, **{**fields, **more}
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A few rows of everything: fractions, unknown sizes, typical memory, attached hosts, spot."""
    root = tmp_path_factory.mktemp("small")
    head = (
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,"
        "Price,SpotPrice,Region,AvailabilityZone,Arch\n"
    )
    files = {
        "aws": "p4d.24xlarge,A100,8,96,1152,'SizeInMiB': 40960,32,10,us-east-1,z1,x86_64\n"
        "p4d.24xlarge,A100,8,96,1152,'SizeInMiB': 40960,32,,us-east-1,z2,x86_64\n"
        "g5.xlarge,A10G,1,4,16,'SizeInMiB': 22888,1,0.4,us-west-2,z3,x86_64\n"
        "m6i.xlarge,,,4,16,,0.2,,us-east-1,z1,x86_64\n"
        "t3.xlarge,,,4,16,,0.1,,us-east-1,z1,x86_64\n",
        "azure": "Standard_NV12ads_A10_v5,A10,0.333,12,110,'SizeInMiB': 8192,0.9,,eastus,,\n"
        "Standard_D4s_v5,,,4,16,,0.2,,eastus,,\n",
        "do": "gpu-h100,H100,1,,,'SizeInMiB': 81920,4.4,,nyc2,,\n",
        "runpod": "1x_A100,A100,1,16,117,'SizeInMiB': 40960,1.4,1.4,US,US-1,\n",
        "gcp": ",T4,1,,,'SizeInMiB': 16384,0.35,0.1,us-central1,us-central1-a,\n"
        "n1-standard-2,,,2,7.5,,0.1,0.02,us-central1,us-central1-a,\n"
        "n1-standard-4,,,4,15,,0.2,0.04,us-central1,us-central1-a,\n"
        "n2-standard-4,,,4,16,,0.2,0.05,us-central1,us-central1-a,\n",
        "lambda": "gpu_1x_a10,A10,1,30,200,'SizeInMiB': 24576,1.29,,us-east-1,,\n"
        "cpu_4x,,,4,16,,0.2,,us-east-1,,\n",
    }
    for cloud, text in files.items():
        (root / "p" / cloud).mkdir(parents=True)
        (root / "p" / cloud / "vms.csv").write_text(head + text, encoding="utf-8")
    return Catalog.open(root / "p", cache=root / "cache")


def answers(query: Query, offer: Offer) -> bool:
    """The meaning of a query, one offer at a time."""

    def named(value: object, actual: str) -> bool:
        wanted = (value,) if isinstance(value, str) and value else tuple(value)  # type: ignore[arg-type]
        return not wanted or actual.lower() in {str(w).lower() for w in wanted}

    def enough(demand: Quantity | None, actual: float | None) -> bool:
        return demand is None or (
            actual is not None
            # Memory for each vCPU is not known to suffice where the vCPUs are not known.
            and demand.allows(actual, vcpus=math.nan if offer.vcpus is None else offer.vcpus)
        )

    types = {offer.instance_type.lower()}
    if query.wants_accelerator:
        types.add(offer.instance_type.lower().partition("+")[0])
    counts = (
        ()
        if query.count is None
        else (query.count,)
        if isinstance(query.count, int | float)
        else query.count
    )
    typical = (
        query.wants_accelerator and bool(offer.accelerator) and offer.cloud in MEMORY_IS_TYPICAL
    )
    family = family_of(offer.cloud, offer.instance_type)
    families = GENERAL_PURPOSE.get(offer.cloud)
    is_default = families is None or (not offer.accelerator and family in families)
    chosen = (
        (query.families,) if isinstance(query.families, str) and query.families else query.families
    )
    is_unusual = offer.instance_type.startswith("n1-standard-2+")
    return (
        named(query.accelerator, offer.accelerator)
        and (not counts or any(abs(c - offer.accelerator_count) <= 0.01 for c in counts))
        and enough(query.cpus, offer.vcpus)
        and (typical or enough(query.memory, offer.memory_gib))
        and named(query.cloud, offer.cloud)
        and named(query.region, offer.region)
        and named(query.zone, offer.zone)
        and (not query.instance_type or str(query.instance_type).lower() in types)
        and query.market in (None, offer.market)
        and (query.max_hourly is None or offer.hourly <= query.max_hourly)
        and (not chosen or (is_default and "default" in chosen) or family in chosen)
        and (query.has_accelerator is None or query.has_accelerator == bool(offer.accelerator))
        and (
            not is_unusual
            or query.unusual
            or query.cpus is not None
            or query.memory is not None
            or bool(query.instance_type)
        )
    )


quantities = st.none() | st.builds(
    Quantity, st.sampled_from(Compare), st.sampled_from([2, 4, 7.5, 15, 16, 96, 110, 500])
)
queries = st.builds(
    Query,
    accelerator=st.sampled_from(["", "A100", "a100", "T4", ("A10", "A10G"), "none-such"]),
    count=st.sampled_from([None, 1, 8, 0.33, (1, 8)]),
    cpus=quantities,
    memory=quantities,
    cloud=st.sampled_from(["", "aws", "GCP", ("aws", "local"), "nowhere"]),
    region=st.sampled_from(["", "us-east-1", "US-CENTRAL1", ("CZ", "eastus")]),
    zone=st.sampled_from(["", "z1", "CZ-1"]),
    instance_type=st.sampled_from(
        ["", "n1-standard-2", "n1-standard-4+1xT4", "M6I.xlarge", "sim-A100-1"]
    ),
    market=st.sampled_from([None, *Market]),
    max_hourly=st.sampled_from([None, 0, usd("0.2"), usd("1.5"), usd(32)]),
    families=st.sampled_from(["", "default", "m6i", ("default", "t3")]),
    has_accelerator=st.sampled_from([None, True, False]),
    unusual=st.booleans(),
)
offers = st.lists(
    st.builds(
        live,
        st.integers(1, 3),
        hourly=st.sampled_from([usd("0.2"), usd("1.5"), usd(32)]),
        cloud=st.sampled_from(["local", "aws"]),
        gpu=st.sampled_from(["A100", "SIM"]),
        vcpus=st.sampled_from([None, 4.0]),
        market=st.sampled_from(Market),
    ),
    max_size=5,
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=queries, extra=offers)
def test_select_is_a_filter_in_order(small: Catalog, query: Query, extra: list[Offer]) -> None:
    catalog = small.with_offers(extra)
    everything = [catalog.offer(row) for row in range(len(catalog))]
    found = catalog.offers(query)
    assert [order(o) for o in found] == sorted(order(o) for o in found)
    assert sorted(found, key=repr) == sorted((o for o in everything if answers(query, o)), key=repr)


def test_order_and_first_of_the_shipped(shipped: Catalog) -> None:
    found = shipped.offers(Query(accelerator="A100", count=8))
    assert len(found) > 80
    assert all(order(a) < order(b) for a, b in pairwise(found))
    assert {o.gpus for o in found} == {"A100:8"}


def test_live_offers_come_and_go_without_touching_the_prices(shipped: Catalog) -> None:
    before = shipped.select(Query(accelerator="A100", count=8))
    cheap, other = live(1, hourly=1), live(2, hourly=usd("5.77"), gpu="SIM-GPU", quota_family="sim")
    view = shipped.with_offers([cheap, other, cheap])
    after = view.select(Query(accelerator="A100", count=8))
    assert view.offer(after[0]) == cheap
    assert len(after) == len(before) + 1
    assert view.offers(Query(cloud="local")) == [cheap, other]
    assert view.offers(Query(accelerator="sim-gpu")) == [other]
    assert view.resolve_accelerator("sim") == "SIM-GPU"
    assert view.counts("SIM-GPU") == (8,)
    assert view.clouds() == sorted([*shipped.clouds(), "local"])
    assert view.zones("local", "CZ") == ["CZ-1", "CZ-2"]
    info = view.info("local")
    assert (info.rows, info.sources, info.zones) == (
        2,
        (("local market (simulated)", "2026-11-21", 2),),
        2,
    )
    assert "local" not in shipped.clouds()
    assert len(shipped.select(Query(accelerator="A100", count=8))) == len(before)
    assert view._source is shipped._source


def test_memory_beside_an_accelerator_is_only_typical_on_some_clouds(small: Catalog) -> None:
    asked = Query(accelerator="A100", count=1, memory=Quantity(Compare.AT_LEAST, 500))
    rows = small.select(asked)
    assert {o.cloud for o in rows.offers()} == {"runpod"}
    assert rows.column("memory_is_typical").all()
    assert all(offer.cloud in MEMORY_IS_TYPICAL for offer in rows.offers())
    assert not small.offers(Query(cloud="runpod", memory=Quantity(Compare.AT_LEAST, 500)))


def test_unknown_sizes_satisfy_no_demand(small: Catalog) -> None:
    assert small.offers(Query(cloud="do"))
    assert not small.offers(
        Query(cloud="do", accelerator="H100", memory=Quantity(Compare.AT_LEAST, 1))
    )
    assert not small.offers(
        Query(cloud="do", accelerator="H100", cpus=Quantity(Compare.AT_LEAST, 1))
    )


@pytest.mark.parametrize(
    ("gib", "at_least", "present", "absent"),
    [
        (80, True, {"A100-80GB", "H100", "H200", "MI300X", "B200"}, {"A100", "L40S", "L4"}),
        (24, False, {"L4", "A10G", "RTX4090", "RTX3090", "A10"}, {"T4", "A100", "L40S"}),
        (94, False, {"H100", "H100-NVL"}, {"RTXPRO6000", "A100-80GB"}),
        (141, True, {"H200", "MI300X"}, {"H100"}),
        (100, True, {"H200", "B200"}, {"H100", "A100-80GB", "H100-NVL"}),
    ],
)
def test_device_memory_as_people_say_it(
    shipped: Catalog, gib: float, at_least: bool, present: set[str], absent: set[str]
) -> None:
    rows = shipped.select(Query(device_gib=gib, device_at_least=at_least))
    kinds = set(rows.column("accelerator"))
    assert present <= kinds
    assert not absent & kinds


def test_maker(shipped: Catalog) -> None:
    kinds = set(shipped.select(Query(maker="amd")).column("accelerator"))
    assert kinds == {"MI300X", "MI325X"}


def test_patterns_of_places(shipped: Catalog) -> None:
    rows = shipped.select(Query(cloud="aws", region=("eu-*", "us-west-?")))
    regions = set(rows.column("region"))
    assert {"eu-west-1", "eu-north-1", "us-west-2"} <= regions
    assert not any(r.startswith(("us-east", "ap-")) for r in regions)


@pytest.mark.parametrize(
    ("cpus", "memory", "cloud", "expected"),
    [
        (Quantity(Compare.EXACTLY, 8), Quantity(Compare.PER_VCPU, 4), "aws", "m6i.2xlarge"),
        (Quantity(Compare.EXACTLY, 8), Quantity(Compare.PER_VCPU, 4), "azure", "Standard_D8s_v5"),
        (None, Quantity(Compare.EXACTLY, 32), "aws", "r6i.xlarge"),
        (None, Quantity(Compare.EXACTLY, 32), "azure", "Standard_E4s_v5"),
        (None, Quantity(Compare.EXACTLY, 32), "gcp", "n2-highmem-4"),
        (None, Quantity(Compare.AT_LEAST, 64), "aws", "r6i.2xlarge"),
        (Quantity(Compare.AT_LEAST, 4), Quantity(Compare.AT_LEAST, 4), "aws", "c6i.xlarge"),
    ],
)
def test_default_machines(
    shipped: Catalog, cpus: Quantity | None, memory: Quantity, cloud: str, expected: str
) -> None:
    query = Query(
        cpus=cpus,
        memory=memory,
        cloud=cloud,
        region=("us-east-1", "eastus", "us-central1"),
        families="default",
        market=Market.ON_DEMAND,
    )
    found = [o.instance_type for o in shipped.offers(query)]
    series = {"gcp": "n2-"}.get(cloud, "")
    assert next(name for name in found if name.startswith(series)) == expected


def test_rows_columns_masks_and_slices(shipped: Catalog) -> None:
    view = shipped.with_offers([live(1), live(2, hourly=usd(100))])
    rows = view.select(Query(accelerator="A100"))
    mask = rows.where(cloud="aws", region="us-east-1", market="spot", zone="")
    assert {(o.cloud, o.region, o.market) for o in rows.take(mask).offers()} == {
        ("aws", "us-east-1", Market.SPOT)
    }
    assert rows.where(cloud="local", zone="CZ-2").sum() == 1
    assert not rows.where(cloud="no-such").any()
    assert rows.where().all()
    assert [view.offer(n) for n in rows[:3]] == rows.offers(3)
    assert rows[-1] == rows.numbers[-1]
    assert (np.diff(rows.column("hourly")) >= 0).all()
    assert set(rows.column("market")) == set(Market)
    assert rows.table("cloud")[rows.codes("cloud")].tolist() == rows.column("cloud").tolist()
    with pytest.raises(IndexError):
        view.offer(len(view))


def test_to_frame(small: Catalog) -> None:
    frame = small.with_offers([live(1)]).to_frame(
        small.with_offers([live(1)]).select(Query(accelerator="A100"))
    )
    assert frame["hourly"].tolist() == [1.4, 1.4, 1.5, 10.0, 32.0, 32.0]
    assert set(frame["market"]) == {"spot", "on-demand"}
    assert frame["accelerator_count"].tolist()[-1] == 8
    assert list(small.to_frame(small.select(Query(cloud="none"))).columns) == list(frame.columns)


def test_figures_come_back_as_they_were_written(small: Catalog) -> None:
    (offer,) = small.offers(Query(accelerator="A10", count=0.33))
    assert (offer.accelerator_count, offer.memory_gib, offer.accelerator_memory_gib) == (
        0.333,
        110.0,
        8.0,
    )


def test_several_threads_share_one_catalog(tmp_path: Path, write_v8: Callable[..., Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    catalog = Catalog.open(
        write_v8("lambda", [{"InstanceType": "t", "Price": "1", "vCPUs": "4", "Region": "r"}]),
        cache=tmp_path / "c",
    )
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: len(catalog.select(Query())), range(16))) == [1] * 16
