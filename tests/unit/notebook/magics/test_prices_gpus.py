"""`%prices --gpus`: one row an accelerator, as text, HTML, for the browser, and as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import nbprov
from nbprov.catalog.accelerators_on_sale import AcceleratorList
from nbprov.notebook.magics.parsers import prices_parser
from nbprov.notebook.magics.prices import AcceleratorResult, list_prices
from nbprov.notebook.rendering.packed_table import PackedTable


@pytest.fixture
def found(nbprov_home: Path) -> AcceleratorList:
    return nbprov.prices(cloud=["aws", "gcp", "lambda"]).accelerators()


def test_each_accelerator_is_one_row_that_agrees_with_the_offers(found: AcceleratorList) -> None:
    names = [item.name for item in found]
    assert names == sorted(set(names))
    for item in found:
        offers = nbprov.prices(item.name, cloud=["aws", "gcp", "lambda"]).offers()
        offers = [o for o in offers if o.accelerator == item.name]
        assert item.offers == len(offers)
        assert item.hourly == min(o.hourly for o in offers)
        assert item.each == min(int(o.hourly / o.accelerator_count) for o in offers)
        assert item.counts == tuple(sorted({o.accelerator_count for o in offers}))
        assert item.clouds == tuple(sorted({o.cloud for o in offers}))
        assert item.memory_gib in {o.accelerator_memory_gib for o in offers}
    frame = found.to_frame()
    assert list(frame["accelerator"]) == names
    assert frame["hourly"].dtype == "float64"
    assert frame["hourly"][0] == found[0].hourly / 1e6


def test_the_table_is_text_html_and_columns_for_the_browser(found: AcceleratorList) -> None:
    table = AcceleratorResult(found, "accelerators on sale")
    for form in (table.text(), table.html()):
        assert "in one machine" in form
        assert "H100" in form
        assert "aws" in form
    packed = PackedTable(table._view)
    assert [c["key"] for c in packed.header["columns"]] == [
        *("gpu", "counts", "gpu_memory", "hourly", "each", "clouds")
    ]
    assert packed.header["noun"] == "accelerator"
    assert len(table) == len(found)


def test_the_line_takes_the_same_conditions(nbprov_home: Path) -> None:
    arguments = prices_parser().parse_line("H100 --gpus --cloud gcp --spot")
    table = list_prices(SimpleNamespace(user_ns={}), arguments)
    assert isinstance(table, AcceleratorResult)
    assert {cloud for item in table.accelerators for cloud in item.clouds} == {"gcp"}
    assert all("H100" in item.name for item in table.accelerators)


def test_no_accelerator_is_an_empty_table(nbprov_home: Path) -> None:
    none = nbprov.prices(cloud="aws", max_hourly=1).accelerators()
    assert len(none) == 0
    assert len(none.to_frame()) == 0
    assert "no accelerators" in AcceleratorResult(none, "accelerators on sale").text()
