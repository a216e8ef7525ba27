"""The dashboard in JupyterLab: its content, its growing amounts and its buttons."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from local_cloud import set_market
from notebook_page import NotebookPage, button, panel
from pictures import Album
from playwright.sync_api import Locator, expect

LONG_MS = 60_000
WORK = (
    "%%on dev\nimport threading, time\ndef work():\n    end = time.time() + 40\n"
    "    while time.time() < end: sum(range(10**6)); time.sleep(0.05)\n"
    "threading.Thread(target=work).start()"
)
JOB = "%nbprov jobs dev submit --name count -- echo step 1; echo step 2"
LAUNCH = (
    "%%provision dev --yes --wait\nbudget: 5\nmax_lifetime: 2h\n"
    "resources: {accelerators: A100, infra: local, ports: 6006,"
    " autostop: {idle_minutes: 30, down: true}}"
)


def test_dashboard(
    open_notebook: Callable[..., NotebookPage], nbprov_home: Path, album: Album
) -> None:
    set_market(nbprov_home, accept=0.1, boot=0.1)
    cells = ["%load_ext nbprov", LAUNCH, WORK, "%nbprov dashboard", "%nbprov history", JOB]
    notebook = open_notebook(cells)
    notebook.run("%load_ext")
    notebook.run("%%provision")
    notebook.run("%%on dev")
    board = panel(notebook.run("%nbprov dashboard"), "Clusters")
    expect(board.locator(".nbprov-title")).to_have_text("nbprov: 1 cluster live")
    amount = board.locator(".nbprov-figure", has_text="today, simulated").locator(".nbprov-amount")
    before = amount.inner_text()
    expect(amount).not_to_have_text(before, timeout=LONG_MS)
    expect(board).to_contain_text("blocked")
    expect(board).to_contain_text("is port 6006 of dev")
    budget = board.get_by_role("meter", name="Budget of dev")
    spent = re.compile(r"^dev \$[\d.]+\* of \$5\.00, 0 %$")
    expect(budget).to_have_attribute("aria-valuetext", spent)
    expect(board.get_by_role("img", name="in 30 days, the most on")).to_be_visible()
    expect(board.locator(".nbprov-legend")).to_contain_text(re.compile(r"^local \$[\d.]+\*$"))
    assert re.fullmatch(
        r"http://127\.0\.0\.1:\d+", board.get_by_role("link").get_attribute("href") or ""
    )
    guards = board.locator("td.nbprov-guards")
    expect(guards).to_contain_text(re.compile(r"down after 2 h: 1 h 5\d min left"))
    expect(guards).to_contain_text(re.compile(r"down at \$5\.00: .* left at this rate"))
    idle = re.compile(r"down after 30 min idle: (in use now|\d+ min)")
    expect(guards).to_contain_text(idle, timeout=LONG_MS)
    load = board.get_by_role("group", name="Load of dev")
    expect(load).to_contain_text(re.compile(r"GPU0 %"))
    expect(load).to_contain_text(re.compile(r"CPU[1-9]\d* % of 12"), timeout=LONG_MS)
    expect(load).to_contain_text(re.compile(r"memory[\d.]+ of 85 GiB"))
    expect(load).to_contain_text(re.compile(r"disk[\d.]+ of \d+ GiB"))
    lines = load.locator("polyline")
    expect(lines.first).to_have_attribute("points", re.compile(r"(\S+ ){3}"), timeout=LONG_MS)
    expect(notebook.run("%nbprov history")).to_contain_text("1 launch")
    notebook.run("%nbprov jobs dev submit")
    toggle = board.get_by_role("button", name="jobs, cells, log of dev")
    toggle.click()
    items = board.get_by_role("list", name="Jobs and cells of dev")
    expect(items).to_contain_text(
        re.compile(r"job count-1.*cell \S+ ok.* · import threading, time")
    )
    items.get_by_role("button", name="job count-1").click()
    expect(board.get_by_label("Output of count-1")).to_have_text("step 1\nstep 2")
    album.take("tasks", board)
    items.get_by_role("button", name="launch log").click()
    expect(board.get_by_label("Output of log")).to_contain_text("accepted")
    toggle.click()
    expect(items).to_be_hidden()
    places = board.get_by_role("table", name="Places in the last 24 h")
    expect(places.get_by_role("row", name=re.compile("A100:1 .* accepted"))).to_be_visible(
        timeout=LONG_MS
    )
    expect(board).to_contain_text("age of prices")
    album.take("dashboard", notebook.cell("%nbprov dashboard"))
    button(board, "Down").click()
    button(board, "Really down?").click()
    expect(board.locator(".nbprov-title")).to_have_text(
        "nbprov: no cluster is live", timeout=LONG_MS
    )


TODAY = """board => {
    const money = /\\$[\\d.]+/;
    const read = (text) => money.exec(text)[0];
    const figures = [...board.querySelectorAll('.nbprov-figure')];
    const today = figures.find((one) => one.textContent.startsWith('today, simulated'));
    const bar = [...board.querySelectorAll('.nbprov-day')].at(-1);
    return {
        total: read(today.querySelector('.nbprov-amount').textContent),
        label: read(bar.title.split(': ')[1]),
        days: read(board.querySelector('.nbprov-days .nbprov-why').textContent),
        aria: read(board.querySelector('.nbprov-day-bars').getAttribute('aria-label')),
        legend: read(board.querySelector('.nbprov-legend').textContent),
        height: bar.lastElementChild.getBoundingClientRect().height,
        moving: board.querySelector('.nbprov-days').getAnimations({ subtree: true }).length,
    };
}"""
"""What a dashboard says of today and of all its days, at one moment."""
COUNT = """days => {
    window.drawn = 0;
    const what = { childList: true, characterData: true, attributes: true, subtree: true };
    new MutationObserver(() => window.drawn++).observe(days, what);
}"""
YESTERDAY = """
    INSERT INTO price_segments (run_id, token, instance_id, kind, hourly, started, ended)
    SELECT run_id, token, instance_id, kind, hourly, started - 86400, started - 86400 + 60
    FROM price_segments WHERE ended IS NULL
"""
"""A minute's cost a day ago, in proportion to which the bar of today is seen to grow."""


def samples(board: Locator, wanted: int) -> list[dict[str, Any]]:
    """Return what a dashboard says at so many moments, between which its total changes."""
    found: list[dict[str, Any]] = []
    while len(found) < wanted:
        told = board.evaluate(TODAY)
        if not found or told["total"] != found[-1]["total"]:
            found.append(told)
        board.page.wait_for_timeout(100)
    return found


def draws(notebook: NotebookPage, ms: int) -> int:
    """How often the days are drawn in this time; a change that the kernel reports draws them."""
    before: int = notebook.page.evaluate("window.drawn")
    notebook.page.wait_for_timeout(ms)
    after: int = notebook.page.evaluate("window.drawn")
    return after - before


def test_the_bar_of_today_grows_with_the_total(
    open_notebook: Callable[..., NotebookPage], nbprov_home: Path, album: Album
) -> None:
    set_market(nbprov_home, accept=0.1, boot=0.1, stocked=True)
    lines = "for line in range(200): print(line)"
    cells = ["%load_ext nbprov", LAUNCH, "%nbprov dashboard", lines, "%nbprov down dev"]
    notebook = open_notebook(cells)
    notebook.page.emulate_media(reduced_motion="reduce")
    notebook.run("%load_ext")
    notebook.run("%%provision")
    with closing(sqlite3.connect(nbprov_home / "ledger.sqlite3")) as ledger, ledger:
        ledger.execute(YESTERDAY)
    board = panel(notebook.run("%nbprov dashboard"), "Clusters")
    expect(board.locator(".nbprov-day")).to_have_count(30)
    told = samples(board, 5)
    for one in told:
        assert one["label"] == one["total"], one
        assert one["days"] == one["aria"] == one["legend"] != one["total"], one
        assert one["moving"] == 0, "a person may have asked for no motion"
    heights = [one["height"] for one in told]
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]
    album.take("days", board.locator(".nbprov-days"))
    album.take("dashboard-days", board)

    # What nobody sees is not drawn, and is right as soon as somebody does.
    days = board.locator(".nbprov-days")
    days.evaluate(COUNT)
    notebook.run("for line").evaluate("output => output.scrollIntoView({ block: 'end' })")
    assert any(draws(notebook, ms=3000) == 0 for _ in range(10)), "it is drawn each second"
    board.evaluate("board => board.scrollIntoView()")
    (seen,) = samples(board, 1)
    assert seen["label"] == seen["total"]
    assert samples(board, 2)[-1]["height"] > heights[-1]
    notebook.run("%nbprov down")
