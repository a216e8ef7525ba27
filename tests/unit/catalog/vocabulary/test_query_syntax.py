"""Questions as people write them, and what they may have meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.catalog import AmbiguousName, Catalog, Query, QueryError, UnknownName
from nbprov.catalog.vocabulary.query_syntax import Asked, read
from nbprov.catalog.vocabulary.suggestions import require_known, unknown_names
from nbprov.model.errors import NbprovError
from nbprov.model.money import usd
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("A100", Asked("A100")),
        (" a100 : 8 ", Asked("a100", 8.0)),
        ("A100:4+", Asked("A100", 4.0, True)),
        ("A10:0.33", Asked("A10", 0.33)),
        ("80GB", Asked(device_gib=80.0)),
        ("80 GB+", Asked(device_gib=80.0, device_at_least=True)),
        ("80gib+:8", Asked(count=8.0, device_gib=80.0, device_at_least=True)),
        ("nvidia:24GB:2+", Asked(count=2.0, count_at_least=True, device_gib=24.0, maker="nvidia")),
        ("/A100.*/", Asked("/A100.*/")),
        ("/^(A|H)100$/:8", Asked("/^(A|H)100$/", 8.0)),
        ("/a:b/:2+", Asked("/a:b/", 2.0, True)),
        ("H1*:8", Asked("H1*", 8.0)),
    ],
)
def test_forms(text: str, asked: Asked) -> None:
    assert read(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8",
        "A100:",
        "A100:x",
        "A100:0",
        "A100:-1",
        "A100:nan",
        "A100:inf",
        "A:8:2",
        "/(/",
        "/a/8",
        "0GB",
        "/" + "a" * 300 + "/",
    ],
)
def test_what_is_in_no_form_is_a_query_error(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        read(text)
    assert caught.value.hint


@given(st.text(alphabet="Aa1:/+*? GB.80()[]{}|\\-^$", max_size=20))
def test_any_text_is_a_question_or_an_error_of_ours(shipped: Catalog, text: str) -> None:
    try:
        query = shipped.query(text)
    except NbprovError:
        return
    shipped.select(query)


def kinds(catalog: Catalog, query: Query) -> set[str]:
    return set(catalog.select(query).column("accelerator"))


def test_patterns_and_fragments(shipped: Catalog) -> None:
    assert kinds(shipped, shipped.query("/^A100/")) == {
        name for name in shipped.accelerators() if name.startswith("A100")
    }
    assert kinds(shipped, Query(accelerator="/a100.*80gb$/")) == {
        n for n in shipped.accelerators() if re.search("A100.*80GB$", n)
    }
    assert kinds(shipped, shipped.query("A100*")) == kinds(shipped, shipped.query("/^A100/"))
    assert shipped.query("a100 80gb").accelerator == ("A100-80GB",)
    assert shipped.query("rtx 4090").accelerator == ("RTX4090",)
    with pytest.raises(AmbiguousName):
        shipped.query("RTXA")
    several = {name for name in shipped.accelerators() if "RTXA" in name}
    assert set(shipped.query("RTXA", fuzzy=True).accelerator) == several
    assert len(several) > 1
    with pytest.raises(UnknownName, match="9999") as caught:
        shipped.query("/GTX-?9999/")
    assert caught.value.code == "catalog.unknown-accelerator"


def test_a_bad_expression_is_an_error_of_ours_in_every_question(shipped: Catalog) -> None:
    with pytest.raises(QueryError, match="not a regular expression"):
        shipped.select(Query(accelerator="/[/"))


def test_counts_and_more(shipped: Catalog) -> None:
    def counts(query: Query) -> set[float]:
        return set(shipped.select(query).column("accelerator_count").tolist())

    everything = counts(Query(accelerator="A100"))
    assert counts(shipped.query("A100:4")) == {4.0}
    assert counts(shipped.query("A100:4+")) == {count for count in everything if count >= 4}
    assert counts(Query(accelerator="A10", count=0.5, count_at_least=True)) == {
        c for c in counts(Query(accelerator="A10")) if c >= 0.5
    }
    assert min(counts(Query(count=8, count_at_least=True))) == 8.0


def test_memory_of_a_device_and_count_at_least(shipped: Catalog) -> None:
    rows = shipped.select(shipped.query("80GB+:8", market=Market.SPOT))
    assert len(rows)
    assert rows.column("device_gb").min() >= 80
    assert set(rows.column("accelerator_count").tolist()) == {8.0}
    assert rows.column("is_spot").all()


def test_price_bounds_hold_both_ends(
    write_v8: WriteV8, open_catalog: Callable[..., Catalog]
) -> None:
    rows = [
        {"InstanceType": f"t{p}", "vCPUs": 4, "Price": p, "Region": "r"}
        for p in ("0.1", "0.2", "0.3", "0.4")
    ]
    catalog = open_catalog(write_v8("lambda", rows))

    def names(**fields: int) -> list[str]:
        return [offer.instance_type for offer in catalog.offers(Query(**fields))]  # type: ignore[arg-type]

    assert names(min_hourly=usd("0.2")) == ["t0.2", "t0.3", "t0.4"]
    assert names(min_hourly=usd("0.2"), max_hourly=usd("0.3")) == ["t0.2", "t0.3"]
    assert names(min_hourly=usd("0.2") + 1, max_hourly=usd("0.3") - 1) == []
    assert names(min_hourly=usd(5)) == []


def test_fresh_prices_only(shipped: Catalog) -> None:
    fresh = shipped.select(Query(as_of="2026-07-01"))
    assert 0 < len(fresh) < len(shipped)
    assert min(fresh.column("as_of")) >= "2026-07-01"
    assert len(shipped.select(Query(as_of="2999-01-01"))) == 0
    days = (datetime.now(UTC).date() - datetime(2026, 7, 1, tzinfo=UTC).date()).days
    assert len(shipped.select(Query(fresh_days=days))) == len(fresh)
    assert Query(as_of="2026-07-01", fresh_days=days + 10).oldest == "2026-07-01"
    assert Query(fresh_days=0).oldest == (datetime.now(UTC).date() - timedelta()).isoformat()
    assert Query().oldest == ""


@pytest.mark.parametrize(
    "query",
    [
        Query(as_of="yesterday"),
        Query(as_of="2026-13-01"),
        Query(fresh_days=1e300),
        Query(fresh_days=float("nan")),
    ],
)
def test_a_date_that_is_none_is_a_query_error(shipped: Catalog, query: Query) -> None:
    with pytest.raises(QueryError):
        shipped.select(query)


@pytest.mark.parametrize(
    ("query", "kind", "name", "close"),
    [
        (Query(cloud="asw"), "cloud", "asw", "aws"),
        (Query(region="us-eest-1"), "region", "us-eest-1", "us-east-1"),
        (Query(cloud="gcp", region="us-west-1"), "region", "us-west-1", "us-west1"),
        (Query(cloud="runpod", region="japn"), "region", "japn", ""),
        (Query(zone="us-central1-q"), "zone", "us-central1-q", "us-central1-a"),
        (Query(instance_type="p4d.24xlrge"), "instance type", "p4d.24xlrge", "p4d.24xlarge"),
        (Query(accelerator="A1000"), "accelerator", "A1000", "A100"),
    ],
)
def test_names_that_are_not_there_come_with_the_closest(
    shipped: Catalog, query: Query, kind: str, name: str, close: str
) -> None:
    (unknown,) = unknown_names(shipped, query)
    assert (unknown.kind, unknown.name) == (kind, name)
    assert unknown.code == f"catalog.unknown-{kind.replace(' ', '-')}"
    assert not close or close in unknown.close
    assert unknown.hint
    with pytest.raises(UnknownName, match=re.escape(name)):
        require_known(shipped, query)


@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(cloud="AWS", region="us-*", zone="use1-az?"),
        Query(region=("eu", "us-east-1", "germany")),
        Query(accelerator=("a100", "/H.00/"), instance_type="P4D.24xlarge"),
        Query(instance_type="n1-standard-4", accelerator="T4"),
    ],
)
def test_names_that_are_there_need_no_hint(shipped: Catalog, query: Query) -> None:
    assert unknown_names(shipped, query) == []
    require_known(shipped, query)


def test_several_unknown_names_are_all_told(shipped: Catalog) -> None:
    query = Query(cloud="asw", region="nowhere", accelerator="Q9", instance_type="x.y")
    assert [unknown.kind for unknown in unknown_names(shipped, query)] == [
        "cloud",
        "region",
        "instance type",
        "accelerator",
    ]


def test_types_are_those_of_the_clouds_asked(shipped: Catalog) -> None:
    assert "Standard_D8s_v5" in shipped.instance_types(["azure"])
    assert "Standard_D8s_v5" not in shipped.instance_types(["aws"])
