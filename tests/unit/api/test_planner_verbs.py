"""Prices, plans and terms as the API answers them, on the shipped prices; no cloud is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbprov
from nbprov import api
from nbprov.catalog import AmbiguousName, Catalog, Query, UnknownName, default_catalog
from nbprov.market import Stock, StockLevel
from nbprov.model.blocks import Block
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.failures import Cause
from nbprov.model.money import usd
from nbprov.model.offers import RuleKind
from nbprov.model.places import Market
from nbprov.model.resources import Compare, Quantity
from nbprov.planning import PlanError
from nbprov.spec import SpecError

A100S = "resources: {accelerators: A100:8, infra: aws}"


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    yield nbprov.session()
    api.close()


# ---------------------------------------------------------------- prices


@pytest.mark.parametrize(
    ("text", "kinds", "counts"),
    [
        ("a100:8", {"A100"}, {8.0}),
        ("A100:4+", {"A100"}, {4.0, 8.0, 16.0}),
        ("A10G*", {"A10G"}, None),
        ("/^H[12]00$/:8", {"H100", "H200"}, {8.0}),
    ],
)
def test_prices_by_name(
    session: api.Session, text: str, kinds: set[str], counts: set[float] | None
) -> None:
    frame = session.prices(text).to_frame()
    assert set(frame.accelerator) == kinds
    assert counts is None or set(frame.accelerator_count) <= counts
    assert frame.hourly.is_monotonic_increasing


def test_prices_by_memory_in_a_part_of_the_world(session: api.Session) -> None:
    frame = session.prices("80GB+:8", region="eu", market="spot", max_hourly=usd(12)).to_frame()
    assert len(frame)
    assert frame.accelerator_memory_gib.min() >= 74
    assert (set(frame.continent), set(frame.market), set(frame.accelerator_count)) == (
        {"eu"},
        {"spot"},
        {8.0},
    )
    assert frame.hourly.max() <= 12


def test_the_frame_says_what_it_holds(session: api.Session) -> None:
    frame = session.prices("T4").to_frame()
    assert str(frame.hourly.dtype) == "float64"
    assert str(frame.as_of.dtype).startswith("datetime64")
    assert frame.accelerator_count.dtype == frame.vcpus.dtype == frame.memory_gib.dtype == float


def test_a_query_and_a_text_add_up(session: api.Session) -> None:
    prices = session.prices("A100", query=Query(count=8.0, cloud="gcp"), market=Market.SPOT)
    assert (
        prices.query.accelerator,
        prices.query.count,
        prices.query.cloud,
        prices.query.market,
    ) == (("A100",), 8.0, "gcp", Market.SPOT)


def test_clouds_without_an_account_are_listed(session: api.Session) -> None:
    assert len(set(session.prices("A100").to_frame().cloud)) > 3
    assert len(session.prices("A100")) == len(default_catalog().select(Query(accelerator="A100")))


@pytest.mark.parametrize(
    ("text", "conditions", "kind", "close"),
    [
        ("A1000", {}, "accelerator", "A100"),
        ("", {"cloud": "awz"}, "cloud", "aws"),
        ("A100", {"region": "eu-wst-1"}, "region", "eu-west-1"),
        ("A100", {"cloud": "aws", "zone": "use1-az99"}, "zone", "use1-az1"),
        ("", {"instance_type": "p4d.24xlargo"}, "instance type", "p4d.24xlarge"),
    ],
)
def test_an_unknown_name_has_close_ones(
    session: api.Session, text: str, conditions: dict[str, str], kind: str, close: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        session.prices(text, **conditions)
    assert caught.value.kind == kind
    assert close in caught.value.close


def test_an_instance_type_is_told_apart(session: api.Session) -> None:
    with pytest.raises(UnknownName) as caught:
        session.prices("p4d.24xlarge")
    assert "--type p4d.24xlarge" in caught.value.hint
    assert {o.instance_type for o in session.prices(instance_type="p4d.24xlarge").offers(5)} == {
        "p4d.24xlarge"
    }


def test_a_fragment_of_several_names(session: api.Session) -> None:
    with pytest.raises(AmbiguousName):
        session.prices("rtxa")
    assert len(session.prices("rtxa", fuzzy=True).query.accelerator) > 1


def test_conditions_that_there_are_not(session: api.Session) -> None:
    with pytest.raises(UsageError) as caught:
        session.prices("A100", marcet="spot")
    assert caught.value.hint == "did you mean market?"
    with pytest.raises(UsageError, match="no market 'spt'"):
        session.prices("A100", market="spt")


@given(st.text(max_size=20))
def test_any_text_is_a_question_or_an_error_of_ours(catalog_of_all: Catalog, text: str) -> None:
    from nbprov.api.price_query import with_accelerator

    try:
        query = with_accelerator(catalog_of_all, text, Query(), fuzzy=True)
    except NbprovError:
        return
    assert query == Query() or query.accelerator or query.device_gib


@pytest.fixture(scope="module")
def catalog_of_all() -> Catalog:
    return default_catalog()


def test_prices_of_now_where_no_cloud_can_tell(session: api.Session) -> None:
    prices = session.prices("A100", live=True)
    assert len(prices)
    assert prices.remarks == (
        "no cloud that is set up tells current prices: these are of the catalogue",
    )


def test_prices_are_short_to_read(session: api.Session) -> None:
    assert " offers, the cheapest: A100:8 p4d.24xlarge spot in aws/" in repr(
        session.prices("A100:8", cloud="aws")
    )
    assert repr(session.prices("A100:8", cloud="aws", max_hourly=1)) == "<0 offers>"


def test_a_problem_of_the_price_files_is_given_out_once(
    session: api.Session, nbprov_home: Path
) -> None:
    folder = nbprov_home / "overrides"
    folder.mkdir(parents=True)
    (folder / "aws.csv").write_text("InstanceType,Region,Price\np4d.24xlarge,us-east-1,cheap\n")
    problems = session.catalog().problems()
    assert [p.cloud for p in session.catalogue.untold(problems)] == ["aws"]
    assert session.catalogue.untold(session.catalog().problems()) == []


# ---------------------------------------------------------------- plans


def test_assumed_clouds_are_planned_for_and_never_checked(session: api.Session) -> None:
    assert not session.plan(A100S).candidates
    made = session.plan(A100S, assume=["aws"])
    assert made.chosen is not None
    assert {c.offer.cloud for c in made.candidates} == {"aws"}
    assert {
        c.offer.cloud
        for c in session.plan("resources: {accelerators: A100:8}", assume=["all"]).candidates
    } > {"aws", "gcp"}
    with pytest.raises(UnknownName) as caught:
        session.plan(A100S, assume=["asw"])
    assert "aws" in caught.value.close


def test_variables_reach_every_verb(session: api.Session) -> None:
    variables = {"gpus": ["H100:8", "A100:8"], "where": "aws"}
    text = "resources: {accelerators: $gpus, infra: $where, max_price: 9}"
    made = session.plan(text, variables=variables, assume=["aws"])
    assert [str(v.name) for v in made.spec.variables] == ["gpus", "where"]
    assert session.relax(text, variables=variables, assume=["aws"])
    assert asyncio.run(
        nbprov.aio.relax(text, variables=variables, assume=["aws"])
    ) == session.relax(text, variables=variables, assume=["aws"])
    for verb in (session.plan, session.relax, session.provision):
        with pytest.raises(SpecError, match=r"no notebook variable `wher`|no notebook variable"):
            verb("resources: {infra: $wher}", variables={"where": "aws"})


def test_what_a_cloud_says_of_its_stock_counts(session: api.Session) -> None:
    text = f"{A100S}\nprefer: soonest"
    first = session.plan(text, assume=["aws"]).chosen
    assert first is not None
    assert first.success is None
    now = session.engine.clock.now()
    none = Stock(now, first.offer.pool, StockLevel.NONE)
    made = session.plan(text, stock=[none], assume=["aws"])
    assert made.chosen is not None
    assert made.chosen.offer.place != first.offer.place
    (same,) = [c for c in made.candidates if c.offer == first.offer]
    assert same.success is not None
    assert same.success < 0.3


def test_a_block_has_its_line_with_a_count(session: api.Session) -> None:
    now = session.engine.clock.now()
    block = Block("aws", region="us-east-1", cause=Cause.CAPACITY, since=now, expires=now + 600)
    made = session.plan(A100S, blocks=[block], assume=["aws"])
    (line,) = [d for d in made.dropped if d.rule.kind is RuleKind.BLOCKED]
    assert (
        line.count == len(session.plan(A100S, assume=["aws"]).candidates) - len(made.candidates) > 0
    )


def test_relax_names_one_constraint_at_a_time(session: api.Session) -> None:
    found = session.relax(f"{A100S[:-1]}, max_price: 5}}", assume=["aws"])
    opening = [r for r in found if r.places]
    assert {r.field for r in opening} & {"max_price", "use_spot"}
    assert all(r.hourly for r in opening)


def test_a_place_that_does_not_exist(session: api.Session) -> None:
    with pytest.raises(PlanError):
        session.plan("resources: {infra: awz}", assume=["aws"])


# ---------------------------------------------------------------- terms


def test_terms_are_those_of_the_run(session: api.Session) -> None:
    text = f"{A100S}\nrace: 2\nwait: 2h\nbudget: 100\n"
    made = session.plan(text, assume=["aws"])
    terms = session.terms(made)
    driver = session.engine.prepare_run("dev", made.spec, made)
    assert terms.notes == tuple(driver.notes)
    assert terms.race == driver.failover.race == 2
    assert [line.split(":")[0] for line in terms.notes][:2] == ["race", "wait"]
    assert any(line.startswith("budget: $100.00 lasts") for line in terms.notes)
    assert terms.refusal == ""


def test_terms_of_a_consent_that_passes_dearer_places_over(session: api.Session) -> None:
    made = session.plan(f"{A100S}\nconfirm_above: {{hourly: 25}}\n", assume=["aws"])
    terms = session.terms(made)
    assert terms.plan.dearest is not None
    assert terms.plan.dearest.hourly <= usd(25)
    assert "passed over" in terms.notes[0]
    agreed = session.terms(made, agreed=True)
    assert agreed.plan.dearest == made.dearest
    assert not any("passed over" in note for note in agreed.notes)


def test_terms_say_when_launch_would_be_refused(session: api.Session) -> None:
    terms = session.terms(session.plan(f"{A100S}\nbudget: 0.01\nrace: 3\n", assume=["aws"]))
    assert "a budget of" in terms.refusal
    assert terms.race == 1


def test_an_open_env_is_told_with_the_other_errors(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "num_nodes: 0\nenvs: {HF: null}\nbudget: -1\nengine: spark\n"
    monkeypatch.delenv("HF", raising=False)
    with pytest.raises(SpecError) as caught:
        session.provision(text)
    assert [(p.line, p.path) for p in caught.value.problems] == [
        (1, "num_nodes"),
        (2, "envs.HF"),
        (3, "budget"),
        (4, "engine"),
    ]
    for known in ({"env": {"HF": "x"}}, {}):
        if not known:
            monkeypatch.setenv("HF", "x")
        with pytest.raises(SpecError) as caught:
            session.provision(text, **known)
        assert len(caught.value.problems) == 3


def test_sizes_in_a_question(session: api.Session) -> None:
    least = Quantity(Compare.AT_LEAST, 200.0)
    assert {o.vcpus for o in session.prices("H200:8", cpus=least).offers()} <= {
        o.vcpus for o in session.prices("H200:8").offers()
    }
    assert all((o.vcpus or 0) >= 200 for o in session.prices("H200:8", cpus=least).offers())


def test_a_text_where_several_names_may_stand_is_one_name(nbprov_home: Path) -> None:
    spec = "resources: {accelerators: H100:8}"
    session = nbprov.session()
    all_of = session.plan(spec, assume=["all"])
    assert len(all_of.candidates) > 0
    assert len(session.plan(spec, assume="all").candidates) == len(all_of.candidates)
    both = session.plan(spec, assume="aws, gcp")
    assert {c.offer.cloud for c in both.candidates} == {"aws", "gcp"}
    with pytest.raises(UsageError, match="assume takes names, not 7"):
        session.plan(spec, assume=[7])
    assert [told.cloud for told in session.check("local")] == ["local"]
    assert [s.cloud for s in session.catalogue.status("gcp")] == ["gcp"]
