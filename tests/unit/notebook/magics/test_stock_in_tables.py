"""Stock reports, and clouds that are not set up, in the magics' tables."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "api"))

from shelf_world import LONG, Shelf, only
from testing_shell import TestingShell

from nbprov import api
from nbprov.clouds import registry
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.failures import Cause, Failure
from nbprov.model.stock import Pool, StockLevel
from nbprov.notebook.extension import load, unload
from nbprov.notebook.magics import plan_table, provision, stock_updater
from nbprov.notebook.magics.stock_updater import StockUpdater
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.panels.price_table import PriceTable

PLAN = (
    "%%nbprov plan\nresources: {accelerators: L40S:1, any_of: [{infra: runpod/CZ}, {infra: "
    "runpod/NO}, {infra: aws}]}"
)
NO_KEY = "no AWS credentials were found"


def level(pool: Pool) -> StockLevel | None:
    return {"CZ": StockLevel.NONE, "NO": StockLevel.HIGH}.get(pool.region)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    runpod, aws = (
        Shelf(level=level),
        Shelf(name="aws", usable=lambda: Failure(Cause.CREDENTIALS, NO_KEY)),
    )
    monkeypatch.setattr(registry, "_points", lambda: only(runpod, aws))
    monkeypatch.setattr(registry, "_made", {})
    yield runpod
    runpod.telling.set()


@pytest.fixture
def shell(shelf: Shelf, nbprov_home: Path) -> Iterator[TestingShell]:
    made = TestingShell()
    load(made)
    yield made
    shelf.telling.set()
    unload(made)
    api.close()


def test_a_plan_in_a_terminal_has_the_stock_of_now(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    api.session().check()  # a busy machine may give no answer within a plan's patience
    shell.run_cell(PLAN)
    told = capsys.readouterr().out
    first, *_, last = [
        line
        for line in told.splitlines()
        if "runpod/" in line and line.lstrip()[0].isdigit() and "place" not in line
    ]
    assert "runpod/NO/" in first
    assert re.search(r"high, \d+ s ago", first)
    assert "none, " in last
    grey = next(line for line in told.splitlines() if "(aws/" in line)
    assert grey.startswith(" – ") or grey.lstrip().startswith("–")
    assert "not set up" in grey
    assert f"clouds in brackets are not set up: aws ({NO_KEY})" in told
    assert "1 of 3 places is out of stock by its cloud's own word: tried last" in told


def test_a_live_table_is_there_before_the_answer_and_filled_in_after(
    shell: TestingShell,
    shelf: Shelf,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf.telling.clear()
    shown: list[str] = []
    show, update = plan_table.show, LiveDisplay.update

    def showing(panel: PriceTable) -> LiveDisplay[Any]:
        shown.append(panel.text())
        assert shelf.was_asked.wait(LONG)
        shelf.telling.set()  # the cloud answers only once the table is there
        return show(panel)

    def updating(display: LiveDisplay[Any], view: Any) -> None:
        update(display, view)
        shown.append(display.panel.text())

    monkeypatch.setattr(frontend, "current", lambda environ=None: frontend.Frontend.WIDGETS)
    monkeypatch.setattr(plan_table, "show", showing)
    monkeypatch.setattr(LiveDisplay, "update", updating)
    monkeypatch.setattr(LiveDisplay, "_publish_widget", lambda display: None)
    shell.run_cell(PLAN)
    assert len(shown) == 2
    assert "high, " not in shown[0]
    assert "high, " in shown[1]
    assert shown[0].index("runpod/CZ") < shown[0].index("runpod/NO")
    assert shown[1].index("runpod/NO") < shown[1].index("runpod/CZ")
    assert "first L40S:1" in capsys.readouterr().out


def test_grey_rows_say_why_on_hover_and_below(shell: TestingShell) -> None:
    table = shell.run_cell(
        "%prices L40S:1 --cloud aws --cloud runpod --on-demand --region NO --region us-east-1"
    ).result
    html, text = table.html(), table.text()
    assert f'title="not set up: {NO_KEY}"' in html
    assert "color:#767676" in html
    assert f"clouds in brackets are not set up: aws ({NO_KEY})" in html
    assert f"clouds in brackets are not set up: aws ({NO_KEY})" in text
    assert "(aws/" in text
    assert "(runpod/" not in text
    assert table.state()["notes"] == [f"not set up: aws ({NO_KEY})"]
    assert "(no adapter yet)" in shell.run_cell("%prices A100:8 --cloud azure").result.text()


def test_prices_of_now_have_a_column_of_stock(shell: TestingShell, shelf: Shelf) -> None:
    plain = shell.run_cell("%prices L40S:1 --cloud runpod --region NO").result
    assert "stock" not in plain.text().splitlines()[1]
    assert shelf.asked == []
    live = shell.run_cell("%prices L40S:1 --cloud runpod --region NO --live").result
    assert "stock" in live.text().splitlines()[1]
    assert "high, " in live.text()
    shell.run_cell("x = %prices L40S:1 --cloud runpod --region NO --live")
    assert set(shell.user_ns["x"].stock) == {"high"}
    assert shell.user_ns["x"].stock_age_s.max() < LONG


def test_yes_waits_a_moment_and_launches_where_there_is_stock(
    shell: TestingShell,
    shelf: Shelf,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf.there = lambda pool: pool.region == "NO"
    waited: list[float] = []
    order = type(api.session().stock_order).order

    def ordering(desk: Any, run: Any, seconds: float = STOCK_SECONDS) -> None:
        waited.append(seconds)
        order(desk, run, seconds)

    monkeypatch.setattr(type(api.session().stock_order), "order", ordering)
    monkeypatch.setattr(provision, "wait_for_run", lambda run, display: shelf.accepted.wait(LONG))
    shell.run_cell(
        "%%provision dev --yes\n"
        "resources: {accelerators: L40S:1, any_of: [{infra: runpod/CZ}, {infra: runpod/NO}]}"
    )
    assert [pool.region for pool in shelf.creates] == ["NO"]
    assert max(waited) < STOCK_SECONDS, "nothing is in the way of a launch for as long as of a plan"
    run = shell.user_ns["dev"]
    run.cancel()
    run.settled(LONG)


def test_check_is_a_table_of_all_clouds(shell: TestingShell) -> None:
    sheet = shell.run_cell("%nbprov check").result
    assert [r.cloud for r in sheet] == ["aws", "runpod"]
    assert "1 of 2 clouds can be used" in sheet.text()
    assert "runpod: balance $3.14" in sheet.text()
    assert f"aws: {NO_KEY}" in sheet.text()
    assert "nothing can be launched there yet: azure" in sheet.text()
    one = shell.run_cell("%nbprov check runpod").result
    assert [r.cloud for r in one] == ["runpod"]
    assert "nothing can be launched" not in one.text()


def test_a_table_that_is_seen_asks_and_one_of_a_closed_session_does_not(
    shell: TestingShell, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.session().check()
    made = shell.run_cell("%prices L40S:1 --cloud runpod").result
    assert made.state()["asks_stock"]
    renewed = threading.Event()
    renew = PriceTable.renew_column

    def renewing(table: PriceTable, make: Any) -> None:
        renew(table, make)
        renewed.set()

    monkeypatch.setattr(PriceTable, "renew_column", renewing)
    live = StockUpdater(api.session(), made.prices, made.renew_column)
    live.look()
    assert renewed.wait(LONG)
    column = next(column for column in made.view.columns if column.key == "stock")
    levels = {str(word).partition("@")[0] for word in column.values.words}
    assert levels >= {"none", "high"}
    assert "stock" not in made.prices.to_frame().columns
    asked = len(shelf.asked)
    api.close()
    live.look()
    live_is_done = threading.Event()
    stock_updater._workers.submit(live_is_done.set)
    assert live_is_done.wait(LONG)
    assert len(shelf.asked) == asked
    assert api.current() is None, "a look opens no session"
