"""EC2's price list of a region: the right rows out of very many."""

from __future__ import annotations

import pytest
from aws_prices import ABOUT, HEADER, machine, price_list, unwanted
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.aws.catalog.price_list import Listed, PriceListColumns, read_list
from nbprov.model.failures import CloudError

P4D = machine("p4d.24xlarge", "21.957642", 96, "1,152 GiB", "8")


def listed(*rows: dict[str, str]) -> dict[str, Listed]:
    """Read a list of these rows."""
    return read_list(price_list(rows).splitlines(), "us-east-1")


def test_a_machine_with_all_its_parts() -> None:
    assert listed(P4D) == {
        "p4d.24xlarge": Listed("p4d.24xlarge", 96, 1152, 8, "x86_64", 21_957_642)
    }


def test_a_machine_without_a_gpu() -> None:
    found = listed(machine("m6i.large", "0.096", 2, "8 GiB"))["m6i.large"]
    assert (found.gpus, found.on_demand) == (None, 96_000)


@pytest.mark.parametrize("processor", ["AWS Graviton2 Processor", "AWS Graviton3 Processor"])
def test_a_graviton_is_an_arm_processor(processor: str) -> None:
    assert (
        listed(machine("g5g.xlarge", "0.42", 4, "8 GiB", "1", **{"Physical Processor": processor}))[
            "g5g.xlarge"
        ].arch
        == "arm64"
    )


@pytest.mark.parametrize("other", unwanted("p4d.24xlarge", 96, "1,152 GiB", "8"))
def test_nothing_beside_it_is_taken_for_it(other: dict[str, str]) -> None:
    assert listed(other, P4D, other)["p4d.24xlarge"].on_demand == 21_957_642
    with pytest.raises(CloudError, match="has no machine in it"):
        listed(other)


@pytest.mark.parametrize("price", ["0.0000000000", "", "free", "-1.0"])
def test_a_price_that_is_none_is_not_taken(price: str) -> None:
    with pytest.raises(CloudError, match="has no machine in it"):
        listed({**P4D, "PricePerUnit": price})


def test_a_row_that_is_no_machine_is_passed_over() -> None:
    storage = {**P4D, "Instance Type": "", "Product Family": "Storage"}
    host = {**P4D, "Instance Type": "p4d", "Product Family": "Dedicated Host"}
    assert listed(storage, P4D, host).keys() == {"p4d.24xlarge"}


def test_two_prices_for_one_machine_leave_it_without() -> None:
    assert listed(P4D, {**P4D, "PricePerUnit": "22.0"})["p4d.24xlarge"].on_demand is None
    assert listed(P4D, {**P4D, "PricePerUnit": "22.0"}, P4D)["p4d.24xlarge"].on_demand is None
    assert listed(P4D, P4D)["p4d.24xlarge"].on_demand == 21_957_642


@given(st.permutations(HEADER))
def test_columns_are_found_by_name(header: list[str]) -> None:
    rows = [*unwanted("p4d.24xlarge", 96, "1,152 GiB", "8"), P4D]
    assert read_list(price_list(rows, header).splitlines(), "us-east-1").keys() == {"p4d.24xlarge"}


def test_columns_that_an_older_list_lacks_say_nothing() -> None:
    header = [
        name
        for name in HEADER
        if name not in ("MarketOption", "Location Type", "CapacityStatus", "GPU", "License Model")
    ]
    found = read_list(price_list([P4D], header).splitlines(), "us-east-1")["p4d.24xlarge"]
    assert (found.on_demand, found.gpus) == (21_957_642, None)


def test_a_list_without_quotes_is_read_too() -> None:
    text = (
        price_list([P4D, *unwanted("p4d.24xlarge", 96, "1152 GiB", "8")])
        .replace('""', "'")
        .replace('"1,152 GiB"', "1152 GiB")
    )
    plain = [line.replace('"', "") for line in text.splitlines() if "as is" not in line] + [
        ",".join(P4D.get(name, "").replace(",", "") for name in HEADER)
    ]
    assert read_list(plain, "us-east-1")["p4d.24xlarge"].memory_gib == 1152


@pytest.mark.parametrize(
    "lines", [[], ["<html>", "<body>"], ['"FormatVersion","v1.0"'] * 200, ["{}"]]
)
def test_what_is_no_price_list_is_said_to_be_none(lines: list[str]) -> None:
    with pytest.raises(CloudError, match="price list of eu-west-1 has no header"):
        read_list(lines, "eu-west-1")


def test_no_more_than_the_first_lines_are_read_to_find_out() -> None:
    lines = iter(["<p>"] * 1000)
    with pytest.raises(CloudError):
        read_list(lines, "us-east-1")
    assert len(list(lines)) > 950


def test_a_row_of_another_length_than_the_header_is_passed_over() -> None:
    text = price_list([P4D]) + '"SKU","T","R","OnDemand","Linux","Linux"\n'
    assert read_list(text.splitlines(), "us-east-1").keys() == {"p4d.24xlarge"}


@given(st.lists(st.text(max_size=80), max_size=30))
def test_any_lines_behind_the_header_are_survived(lines: list[str]) -> None:
    text = price_list([P4D]).splitlines()
    assert "p4d.24xlarge" in read_list([*text, *lines], "us-east-1")


def test_the_lines_about_the_list_are_not_its_header() -> None:
    assert all(PriceListColumns.of(line) is None for line in ABOUT)
    assert PriceListColumns.of(HEADER) is not None
