"""A cloud written by the guide alone is small, and keeps the contract over the common double.

The checks here go through every part of that double; FluffyCloud and the clouds of the tree run all
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pebble_under_test import PebbleUnderTest

from nbprov.clouds.contract import CHECKS, Check, run_check

PACKAGE = Path(__file__).parents[1] / "pebble"
LINES = 400
TRIED = frozenset(
    {
        "a_machine_lives_and_ends",
        "a_stopped_machine_keeps_its_disk_and_starts_again",
        "a_listing_goes_through_every_page",
        "a_young_machine_that_is_not_listed_yet_is_not_gone",
        "every_refusal_has_a_cause_and_the_clouds_own_words",
        "a_lost_answer_is_an_unknown_outcome_and_ends_in_one_machine",
        "every_state_that_bills_is_billed",
        "gone_means_gone",
        "the_login_follows_its_label",
        "stock_follows_what_is_left",
        "a_price_is_asked_again",
        "a_fetched_list_has_the_units_of_the_catalogue",
    }
)


@pytest.fixture
def subject() -> Iterator[PebbleUnderTest]:
    made = PebbleUnderTest()
    try:
        yield made
    finally:
        made.close()


def test_an_adapter_with_prices_is_small() -> None:
    lines = sum(
        len(file.read_text(encoding="utf-8").splitlines())
        for file in PACKAGE.iterdir()
        if file.suffix in (".py", ".csv")
    )
    assert lines < LINES


@pytest.mark.machine
@pytest.mark.parametrize(
    "check", [c for c in CHECKS if c.__name__ in TRIED], ids=lambda c: c.__name__
)
def test_cloud_keeps_the_contract(subject: PebbleUnderTest, check: Check) -> None:
    run_check(subject, check)


def test_the_checks_that_are_tried_exist() -> None:
    assert {c.__name__ for c in CHECKS} >= TRIED
