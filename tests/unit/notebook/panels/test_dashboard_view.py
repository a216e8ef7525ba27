"""What a dashboard says of an overview."""

from __future__ import annotations

from dataclasses import replace

from sample_views import NOW, cluster, plan

from nbprov.api.reports.dashboard_data import Overview
from nbprov.api.reports.history import History, LaunchRecord
from nbprov.api.reports.market_report import MarketReport, PlaceHistory, PriceAge
from nbprov.api.reports.spending import DailyCosts, Spending
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.guards import Guards
from nbprov.model.money import usd
from nbprov.model.stock import Pool, StockLevel
from nbprov.notebook.panels.dashboard import Dashboard
from nbprov.notebook.panels.dashboard_view import DashboardView, view_of

NOTHING = Spending(NOW)
EMPTY = Overview(
    now=NOW,
    clusters=(),
    today=NOTHING,
    month=NOTHING,
    ever=NOTHING,
    forecast=NOTHING,
    days=DailyCosts((), ()),
    under_way=(),
    ended=History([], 0, NOW),
    blocks=(),
    market=MarketReport(),
    tunnels=(),
)
ENDED = LaunchRecord(
    name="dev",
    run_id="run-1",
    state=RunState.ENDED,
    cluster=ClusterState.ENDED,
    started=NOW - 1000.0,
    ready=NOW - 900.0,
    ended=NOW - 280.0,
    cost=usd("0.42"),
    attempts=1,
    refused=0,
    candidate=plan(1).candidates[0],
    reason="you ended it",
    simulated=False,
)


def section(view: DashboardView, title: str) -> tuple[str, ...]:
    """The lines below a heading; none where it is not shown."""
    return next((one.lines for one in view.sections if one.title == title), ())


def test_what_ended_today_says_when_what_it_cost_and_why() -> None:
    failed = replace(
        ENDED,
        name="big",
        state=RunState.FAILED,
        cluster=None,
        ended=NOW - 990.0,
        cost=0,
        candidate=None,
        reason="no place has stock",
        simulated=True,
    )
    view = view_of(replace(EMPTY, ended=History([ENDED, failed], 9, NOW)))
    assert section(view, "ended today") == (
        "dev ended 4 min ago, after 12 min, a2-ultragpu-1g in gcp/us-central1-a, $0.42:"
        " you ended it",
        "big failed 16 min ago, after 10 s, $0.00 (simulated): no place has stock",
        "and 7 more (%nbprov history)",
    )
    assert section(view_of(EMPTY), "ended today") == ()


def test_a_budget_is_shown_with_what_is_spent_of_it() -> None:
    spends = replace(cluster(), cost=usd("1.20"), guards=Guards(budget=usd("5")), simulated=False)
    free = replace(spends, name="toy", simulated=True)
    over = replace(spends, name="over", ended=NOW)
    plain = replace(cluster("plain"), guards=Guards())
    board = Dashboard(view_of(replace(EMPTY, clusters=(spends, free, over, plain))))
    assert [(one["name"], one["spent"], one["limit"]) for one in board.state()["budgets"]] == [
        ("dev", usd("1.20"), usd(5)),
        ("toy", usd("1.20"), usd(5)),
    ]
    assert "dev $1.20 of $5.00, 24 %" in board.text()
    assert "toy $1.20 (simulated: you pay $0) of $5.00, 24 %" in board.text()
    assert "spent of budgets" in board.html()
    assert "budgets" not in Dashboard(view_of(EMPTY)).text()


POOL = Pool("aws", "us-east-1", "use1-az1", "p4d.24xlarge", "spot")
REFUSED = PlaceHistory(
    POOL, (None, StockLevel.LOW, StockLevel.NONE), "capacity", False, NOW - 130.0, "A100:8"
)


def test_places_say_their_day_and_their_last_answer() -> None:
    reported = replace(REFUSED, levels=(None,), answer="high", is_report=True, at=NOW - 30.0)
    accepted = replace(reported, answer="accepted", is_report=False, gpus="")
    many = tuple(replace(REFUSED, pool=POOL._replace(zone=f"z{n}")) for n in range(17))
    report = MarketReport((REFUSED, reported, accepted, *many), total=25)
    board = Dashboard(view_of(replace(EMPTY, market=report)))
    text = board.text().splitlines()
    begin = text.index("places in the last 24 h")
    assert text[begin + 1 : begin + 4] == [
        "  A100:8 p4d.24xlarge spot in aws/us-east-1/use1-az1: out of stock 2 min ago;"
        " in stock at 1 of 2 times in the last 24 h",
        "  A100:8 p4d.24xlarge spot in aws/us-east-1/use1-az1: high stock less than a minute ago",
        "  p4d.24xlarge spot in aws/us-east-1/use1-az1: accepted less than a minute ago",
    ]
    assert text[begin + 7].startswith("  and 19 more (%nbprov history")
    state = board.state()
    assert (len(state["places"]), state["places"][0]["levels"]) == (20, "-10")
    assert state["more_places"].startswith("and 5 more (")


def test_old_prices_stand_out() -> None:
    ages = (
        PriceAge("aws", NOW - 40 * 86_400.0, is_refreshed=False),
        PriceAge("gcp", NOW - 3 * 86_400.0, is_refreshed=True),
        PriceAge("lambda", NOW - 7300.0, is_refreshed=True),
    )
    board = Dashboard(view_of(replace(EMPTY, market=MarketReport(prices=ages))))
    (prices,) = board.state()["sections"]
    assert prices == {
        "title": "age of prices",
        "lines": ("lambda 2 h 1 min ago, gcp 3 d",),
        "warnings": ("older than 30 d: aws 40 d (%nbprov catalog refresh)",),
    }
    assert "▲ older than 30 d: aws 40 d" in board.text()
