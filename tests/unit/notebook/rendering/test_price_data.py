"""The price table's data: from plans and offers into typed buffers."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from datetime import date

import sample_views as samples
from hypothesis import given
from hypothesis import strategies as st
from packed_tables import unpack

from nbprov.model.offers import Unusable
from nbprov.model.stock import Stock, StockLevel
from nbprov.notebook.rendering.packed_table import FIRST_PAGE, PackedTable
from nbprov.notebook.rendering.price_columns import COLUMNS
from nbprov.notebook.rendering.price_data import GREYED, CodedColumn, TableData

TODAY = date(2026, 11, 21)
NOW = 1_780_000_000.0


def test_offers_survive_the_way_to_the_browser() -> None:
    offers = samples.offers(500)
    read = unpack(TableData.from_offers(offers))
    assert read["rank"] == list(range(500))
    assert read["hourly"] == [float(o.hourly) for o in offers]
    assert read["region"] == [o.region for o in offers]
    assert read["market"] == [o.market.value for o in offers]
    assert read["gpu"] == [o.gpus if o.accelerator else "" for o in offers]
    assert [None if math.isnan(v) else v for v in read["vcpus"]] == [o.vcpus for o in offers]  # type: ignore[arg-type]
    assert "why" not in read
    assert "total" not in read


def test_a_plan_keeps_its_ranks_reasons_and_node_count() -> None:
    plan = samples.plan(30, nodes=4)
    data = TableData.from_plan(plan, limit=10)
    read = unpack(data)
    assert (data.rows, data.total, data.noun) == (10, 30, "candidate")
    assert read["rank"] == [c.rank for c in plan.candidates[:10]]
    assert read["why"] == [c.standing for c in plan.candidates[:10]]
    assert read["total"] == [float(c.hourly) for c in plan.candidates[:10]]
    assert read["chance"][0] == "72% likely"
    assert "total" not in unpack(TableData.from_plan(samples.plan(30)))


def test_a_chance_is_said_once_in_its_own_column() -> None:
    plan = samples.plan(1)
    first = replace(plan.candidates[0], success=0.72, standing="1st choice, cheapest")
    read = unpack(TableData.from_plan(replace(plan, candidates=(first,))))
    assert (read["why"], read["chance"], read["stock"]) == (
        ["1st choice, cheapest"],
        ["72% likely"],
        [""],
    )


def test_unknown_values_are_dashes() -> None:
    offer = replace(samples.offer(5), vcpus=None, memory_gib=None, zone="", source="", as_of="")
    cells = TableData.from_offers([offer]).cells(0, TODAY)
    assert [
        cells[k] for k in ("vcpus", "memory", "zone", "source", "as_of", "gpu", "gpu_memory")
    ] == ["–"] * 7
    assert cells["stock"] == "", "nothing said is nothing shown"


def test_stock_is_a_level_and_its_age_at_the_moment() -> None:
    offers = samples.offers(3)
    said = Stock(NOW - 20.0, offers[1].pool, StockLevel.HIGH)
    data = TableData.from_offers(offers, stock=lambda o: said if o is offers[1] else None)
    assert [data.cells(i, TODAY, NOW)["stock"] for i in range(3)] == ["", "high, 20 s ago", ""]
    assert data.cells(1, TODAY, NOW + 60)["stock"] == "high, 1 min ago"
    assert unpack(data)["stock"] == ["", f"high@{said.at!r}", ""]
    assert PackedTable(data).header["now"] > NOW, "the browser counts on from the kernel's clock"


def test_a_candidate_shows_what_its_cloud_said() -> None:
    plan = samples.plan(1)
    first = replace(
        plan.candidates[0], stock=Stock(NOW, plan.candidates[0].offer.pool, StockLevel.NONE)
    )
    assert (
        TableData.from_plan(replace(plan, candidates=(first,))).cells(0, TODAY, NOW)["stock"]
        == "none, 0 s ago"
    )


def test_clouds_that_are_not_set_up_are_grey_rows() -> None:
    offers = [replace(samples.offer(5), cloud=cloud) for cloud in ("aws", "gcp", "aws")]
    data = TableData.from_offers(offers, off={"aws": "no credentials"})
    assert unpack(data)["off"] == ["no credentials", "", "no credentials"]
    assert data.off == {"aws": "no credentials"}
    assert TableData.from_offers(offers).off == {}


def test_a_plan_ends_in_what_clouds_that_are_not_set_up_would_offer() -> None:
    plan = replace(
        samples.plan(30),
        unusable=tuple(
            Unusable(replace(samples.offer(5), cloud=f"c{n}"), "no adapter yet") for n in range(9)
        ),
    )
    data = TableData.from_plan(plan, limit=10)
    assert (data.rows, data.total, data.tail) == (10 + GREYED, 30, GREYED)
    read = unpack(data)
    assert read["rank"][-GREYED:] == [-1] * GREYED
    assert data.cells(10, TODAY)["rank"] == "–"
    assert list(data.off) == [f"c{n}" for n in range(GREYED)]


def test_more_words_than_two_bytes_number_take_four() -> None:
    many = [f"type-{i}" for i in range(70_000)]
    offer = samples.offer(0)
    data = TableData.from_offers([replace(offer, instance_type=name) for name in many])
    head = next(c for c in PackedTable(data).header["columns"] if c["key"] == "type")
    assert head["dtype"] == "u4"
    assert unpack(data)["type"] == many


def test_a_long_table_travels_in_pages_of_which_the_first_is_short() -> None:
    offers = samples.offers(FIRST_PAGE + 7)
    pages = list(PackedTable(TableData.from_offers(offers)).pages())
    assert [(page.start, page.end) for page in pages] == [
        (0, FIRST_PAGE),
        (FIRST_PAGE, FIRST_PAGE + 7),
    ]
    assert [(page.start, page.end) for page in PackedTable(TableData.from_offers([])).pages()] == [
        (0, 0)
    ]


def test_columns_that_only_filter_or_hold_nothing_are_not_drawn() -> None:
    offers = [replace(offer, zone="", vcpus=None) for offer in samples.offers(3)]
    columns = PackedTable(TableData.from_offers(offers)).header["columns"]
    hidden = {column["key"] for column in columns if column.get("hidden")}
    assert {"rank", "off", "zone", "vcpus"} <= hidden
    assert not {"gpu", "hourly", "region"} & hidden


def test_forty_thousand_rows_are_small() -> None:
    packed = PackedTable(TableData.from_offers(samples.offers(40_000)))
    assert sum(buffer.nbytes for page in packed.pages() for buffer in page.buffers) < 2_000_000
    assert packed.header["rows"] == packed.header["total"] == 40_000


def test_every_column_of_the_table_has_a_key_of_its_own() -> None:
    assert len({c.key for c in COLUMNS}) == len(COLUMNS)


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=50))
def test_coding_is_lossless(values: list[str | None]) -> None:
    coded = CodedColumn.of(values)
    assert [coded.words[c] for c in coded.codes] == [v or "" for v in values]
    assert isinstance(coded.codes, array)
    assert len(set(coded.words)) == len(coded.words)
