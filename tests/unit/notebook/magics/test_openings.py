"""What a panel offers for each change that would open more places."""

from __future__ import annotations

from typing import Any

import pytest

from nbprov.clouds import registry
from nbprov.model.blocks import Block
from nbprov.notebook.magics.run_display import opening_of, set_up_cell
from nbprov.planning import Relaxation


def relaxation(**given: Any) -> Relaxation:
    fields = {"field": "max_price", "change": "max_price: 4.00", "places": 2, "offers": 2}
    return Relaxation(**{**fields, "hourly": 3_670_000, **given})


@pytest.mark.parametrize(
    ("change", "text", "press"),
    [
        (relaxation(is_yaml=True), "max_price: 4.00", "Launch with this"),
        (relaxation(change="no cap on the price"), "", "Launch with this"),
        (relaxation(field="blocks", blocks=(Block(),)), "", "Clear and launch"),
        (relaxation(field="aws", cloud="aws"), set_up_cell("aws"), ""),
    ],
)
def test_a_change_has_a_button_and_what_can_be_pasted_has_another(
    change: Relaxation, text: str, press: str
) -> None:
    opening = opening_of(change)
    assert (opening.words, opening.text, opening.press) == (change.words(), text, press)


@pytest.mark.parametrize("cloud", ["aws", "gcp", "lambda", "runpod"])
def test_a_cloud_tells_the_commands_that_set_it_up(cloud: str) -> None:
    commands = registry.set_up(cloud)
    assert commands
    assert set_up_cell(cloud).splitlines() == [
        "# in a terminal:",
        *(f"#   {command}" for command in commands),
        f"%nbprov check {cloud}",
    ]


def test_a_cloud_that_tells_none_can_be_checked() -> None:
    assert set_up_cell("local") == "%nbprov check local"
