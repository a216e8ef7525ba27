"""The table a user gets: its columns, their kinds, its figures."""

from __future__ import annotations

import re

import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_float_dtype, is_string_dtype

from nbprov.catalog import Catalog, Query
from nbprov.catalog.store import frame
from nbprov.model.money import usd


def test_columns_and_kinds_are_those_that_are_documented(shipped: Catalog) -> None:
    documented = re.findall(r"^`.*?`(?=  )", frame.__doc__ or "", re.MULTILINE)
    assert [name for line in documented for name in re.findall(r"`(\w+)`", line)] == sorted(
        frame.COLUMNS, key=frame.COLUMNS.index
    )
    table = shipped.select(Query(accelerator="A100", count=8)).to_frame()
    assert tuple(table.columns) == frame.COLUMNS
    for name in frame.COLUMNS:
        check = (
            is_datetime64_any_dtype
            if name == "as_of"
            else is_float_dtype
            if name in {*frame.FIGURES, "hourly"}
            else is_string_dtype
        )
        assert check(table[name]), name


def test_lines_are_the_rows_in_their_order(shipped: Catalog) -> None:
    rows = shipped.select(Query(accelerator=("A10", "L4"), region="eu"))
    table = rows.to_frame()
    offers = rows.offers()
    assert [usd(price) for price in table["hourly"]] == [offer.hourly for offer in offers]
    assert table["instance_type"].tolist() == [offer.instance_type for offer in offers]
    assert table["accelerator_count"].tolist() == [offer.accelerator_count for offer in offers]
    assert table["market"].tolist() == [offer.market.value for offer in offers]
    assert table["as_of"].dt.strftime("%Y-%m-%d").tolist() == [offer.as_of for offer in offers]
    assert set(table["continent"]) == {"eu"}


def test_an_empty_answer_has_the_same_columns(shipped: Catalog) -> None:
    table = shipped.select(Query(cloud="none")).to_frame()
    assert tuple(table.columns) == frame.COLUMNS
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 0
