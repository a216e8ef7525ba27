"""Which line of Google's billing catalogue prices which part; similar lines are never used."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from gcp_billing import HOSTS, lookalikes, parts, sku
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.gcp.catalog.machine_types import DEVICES, machines
from nbprov.clouds.gcp.catalog.skus import SSD, BilledPart, PartKind, part_of, rates


@pytest.mark.parametrize(
    ("description", "usage", "part", "spot"),
    [
        (
            "N2 Instance Core running in Americas",
            "OnDemand",
            BilledPart(PartKind.CORE, "n2"),
            False,
        ),
        (
            "N2 Instance Ram running in Hong Kong",
            "OnDemand",
            BilledPart(PartKind.MEMORY, "n2"),
            False,
        ),
        (
            "Spot Preemptible N2 Instance Core running in Americas",
            "Preemptible",
            BilledPart(PartKind.CORE, "n2"),
            True,
        ),
        (
            "Preemptible N1 Predefined Instance Core running in Sydney",
            "Preemptible",
            BilledPart(PartKind.CORE, "n1"),
            True,
        ),
        (
            "N2D AMD Instance Core running in Americas",
            "OnDemand",
            BilledPart(PartKind.CORE, "n2d"),
            False,
        ),
        (
            "Compute optimized Core running in Americas",
            "OnDemand",
            BilledPart(PartKind.CORE, "c2"),
            False,
        ),
        (
            "Compute optimized Instance Ram running in Doha",
            "OnDemand",
            BilledPart(PartKind.MEMORY, "c2"),
            False,
        ),
        (
            "A3Plus Instance Core running in Virginia",
            "OnDemand",
            BilledPart(PartKind.CORE, "a3plus"),
            False,
        ),
        (
            "Nvidia Tesla A100 GPU running in Americas",
            "OnDemand",
            BilledPart(PartKind.DEVICE, "A100"),
            False,
        ),
        (
            "Nvidia Tesla A100 80GB GPU running in Americas",
            "OnDemand",
            BilledPart(PartKind.DEVICE, "A100-80GB"),
            False,
        ),
        (
            "Nvidia H100 80GB Plus GPU running in Americas",
            "OnDemand",
            BilledPart(PartKind.DEVICE, "H100-MEGA"),
            False,
        ),
        (
            "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas",
            "Preemptible",
            BilledPart(PartKind.DEVICE, "T4"),
            True,
        ),
        (
            "RTX 6000 96GB running in Belgium",
            "OnDemand",
            BilledPart(PartKind.DEVICE, "RTXPRO6000"),
            False,
        ),
        ("SSD backed Local Storage", "OnDemand", SSD, False),
        ("SSD backed Local Storage in Bangkok", "OnDemand", SSD, False),
        (
            "SSD backed Local Storage attached to Spot Preemptible VMs running in Paris",
            "OnDemand",
            SSD,
            True,
        ),
    ],
)
def test_a_part_is_known_by_its_whole_sentence(
    description: str, usage: str, part: BilledPart, spot: bool
) -> None:
    assert part_of(sku(description, 1, group="x", usage=usage)) == (part, spot)


def test_a_spot_accelerator_that_google_files_under_on_demand_is_a_spot_price() -> None:
    line = sku(
        "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas",
        4.95,
        group="GPU",
        usage="OnDemand",
    )
    assert part_of(line) == (BilledPart(PartKind.DEVICE, "B200"), True)


@pytest.mark.parametrize("line", lookalikes(), ids=lambda line: str(line["description"]))
def test_what_looks_alike_and_costs_something_else_is_no_part(line: dict[str, Any]) -> None:
    assert part_of(line)[0] is None


@given(
    words=st.sampled_from(sorted(HOSTS)),
    word=st.sampled_from(["Custom", "Sole Tenancy", "Reserved", "Extended", "DWS", "X"]),
    at=st.integers(0, 3),
)
def test_a_word_more_makes_it_another_line(words: str, word: str, at: int) -> None:
    sentence = f"{words} Core".split()
    sentence.insert(min(at, len(sentence)), word)
    assert part_of(sku(f"{' '.join(sentence)} running in Americas", 1, group="CPU"))[0] is None


def test_every_part_a_machine_is_billed_for_can_be_found() -> None:
    from nbprov.clouds.gcp.catalog import machine_prices, skus

    known = set(skus._SENTENCES.values())
    assert {part for machine in machines() for part, _ in machine_prices.parts(machine)} <= known
    assert {device.name for device in DEVICES} == {
        part.of for part in known if part.kind is PartKind.DEVICE
    }


def test_prices_are_read_to_the_billionth() -> None:
    found = rates([sku("Nvidia H100 80GB GPU running in Americas", 9.796550569, group="GPU")])
    assert found.of("us-central1", BilledPart(PartKind.DEVICE, "H100"), spot=False) == Decimal(
        "9.796550569"
    )


@pytest.mark.parametrize(("unit", "dollars"), [("GiBy.h", "0.004237"), ("GBy.h", "0.004549444")])
def test_memory_is_priced_by_the_gib_whatever_the_unit(unit: str, dollars: str) -> None:
    found = rates([sku("N2 Instance Ram running in Americas", 0.004237, group="RAM", unit=unit)])
    price = found.of("us-central1", BilledPart(PartKind.MEMORY, "n2"), spot=False)
    assert price is not None
    assert round(price, 9) == Decimal(dollars)


def test_storage_is_priced_by_the_hour() -> None:
    found = rates([sku("SSD backed Local Storage", 0.08, group="LocalSSD")])
    assert found.of("us-central1", SSD, spot=False) == Decimal("0.08") / 730


def test_two_prices_of_one_part_are_none() -> None:
    lines = [
        sku("N2 Instance Core running in Virginia", dollars, group="CPU", regions=("us-east4",))
        for dollars in (0.03, 0.05)
    ]
    for order in (lines, lines[::-1]):
        found = rates(order)
        assert found.of("us-east4", BilledPart(PartKind.CORE, "n2"), spot=False) is None
        assert found.disputed == {("us-east4", BilledPart(PartKind.CORE, "n2"), False)}


def test_the_same_price_twice_is_one() -> None:
    found = rates([sku("N2 Instance Core running in Virginia", 0.03, group="CPU")] * 2)
    assert found.of("us-central1", BilledPart(PartKind.CORE, "n2"), spot=False) == Decimal("0.03")
    assert not found.disputed


def test_the_price_beyond_a_free_allowance_counts() -> None:
    line = sku("E2 Instance Core running in Americas", 0.02, group="CPU")
    tiers = line["pricingInfo"][0]["pricingExpression"]["tieredRates"]
    tiers[0]["startUsageAmount"] = 720
    tiers.insert(
        0, {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": 0}}
    )
    assert rates([line]).of("us-central1", BilledPart(PartKind.CORE, "e2"), spot=False) == Decimal(
        "0.02"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: line.pop("pricingInfo"),
        lambda line: line.update(pricingInfo=[]),
        lambda line: line["pricingInfo"][0]["pricingExpression"].update(usageUnit="mo"),
        lambda line: line["pricingInfo"][0]["pricingExpression"]["tieredRates"][0][
            "unitPrice"
        ].update(units="0", nanos=0),
        lambda line: line["pricingInfo"][0]["pricingExpression"]["tieredRates"][0][
            "unitPrice"
        ].update(currencyCode="EUR"),
        lambda line: line["pricingInfo"][0]["pricingExpression"]["tieredRates"][0][
            "unitPrice"
        ].update(units="many"),
    ],
)
def test_a_line_without_a_price_that_can_be_read_is_counted(spoil: Any) -> None:
    line = sku("N2 Instance Core running in Americas", 0.03, group="CPU")
    spoil(line)
    found = rates([line])
    assert (found.unreadable, found.by_place) == (1, {})


def test_accelerators_without_a_name_here_are_reported_and_other_deals_are_not() -> None:
    assert rates([*lookalikes(), *parts()]).unknown == {"Nvidia H300 GPU": 1}


_odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("description", "category", "serviceRegions", "pricingInfo"), _odd),
    )
)
def test_odd_lines_never_break_the_reading(line: dict[str, Any]) -> None:
    assert (
        rates([{**line, "category": line.get("category", {"usageType": "OnDemand"})}]).by_place
        == {}
    )


@given(_odd)
def test_odd_prices_never_break_the_reading(info: Any) -> None:
    line = {**sku("N2 Instance Core running in Americas", 0.03, group="CPU"), "pricingInfo": info}
    assert rates([line]).unreadable == 1
