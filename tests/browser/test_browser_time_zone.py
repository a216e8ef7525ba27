"""Times in panels are those of the reader, wherever the kernel runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from local_cloud import set_market
from notebook_page import NotebookPage, button, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

LONG_MS = 60_000
TOKYO = "Asia/Tokyo"
SHOWN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:UTC|GMT[+\d]*)")
PRINTED = "2026-11-21 23:09:10 UTC"
KEPT = """%%provision kept --yes --wait
resources: {accelerators: A100, infra: local, autostop: {idle_minutes: 10, down_after: 2h}}"""
WAITS = "%%provision waits --yes\nresources: {accelerators: A100, infra: local}\nwait: 2h"
JOB = f"%nbprov jobs kept submit --name clock -- echo {PRINTED}"


@pytest.fixture
def readers_zone() -> str:
    return TOKYO


def check_times(place: Locator, least: int) -> None:
    """Check that every time in the text of a panel is Tokyo's, and that there are so many."""
    expect(place.locator("time").nth(least - 1)).to_be_attached()
    drawn = place.locator("time").evaluate_all(
        "times => times.map((t) => [t.dateTime, t.innerText])"
    )
    for instant, text in drawn:
        there = datetime.fromisoformat(instant).astimezone(ZoneInfo(TOKYO))
        assert text == f"{there:%Y-%m-%d %H:%M:%S} GMT+9"
    told = SHOWN.findall(place.inner_text())
    assert told
    assert all(time.endswith("GMT+9") for time in told), told


def test_times_are_in_the_readers_zone(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """The kernel is in UTC and the reader in Tokyo; what a machine printed stays as it is."""
    stop = "%nbprov stop kept"
    cells = ["%load_ext nbprov", "%nbprov dashboard", KEPT, JOB, stop, WAITS, "%prices A100"]
    notebook = open_notebook([*cells, "%nbprov down --all"], {"TZ": "UTC"})
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    board = panel(notebook.run("%nbprov dashboard"), "Clusters")
    expect(board.locator(".nbprov-title")).to_have_text("nbprov: no cluster is live")
    expect(board).to_contain_text(
        re.compile(r"the kernel's time zone: today began at [\d-]+ 09:00:00 GMT\+9")
    )
    launch = panel(notebook.run(KEPT.splitlines()[0]), "Provision")
    expect(state(launch)).to_have_text("ready")
    notebook.run(JOB)
    board.get_by_role("button", name="jobs, cells, log of kept").click()
    board.get_by_role("button", name="job clock-1").click()
    expect(board.get_by_label("Output of clock-1")).to_have_text(PRINTED)
    button(board, "jobs, cells, log").click()

    notebook.run(stop)
    guards = board.locator("td.nbprov-guards")
    expect(guards).to_contain_text(re.compile(r"ended at \S+ \S+ GMT\+9 \(down_after\)"))
    check_times(board, 2)
    set_market(notebook.home, empty=True)
    run = panel(notebook.run(WAITS.splitlines()[0]), "Provision")
    expect(run).to_contain_text(re.compile(r"waiting for stock until .* GMT\+9; next pass"))
    check_times(run, 2)
    album.take("zone", notebook.cell("%nbprov dashboard"))
    album.take("zone-run", notebook.cell(WAITS.splitlines()[0]))
    prices = panel(notebook.run("%prices A100"), "Prices")
    # A price's date is a day and no time; its title says which zone's.
    age = prices.locator('[role="gridcell"][title$=" UTC"]').first
    expect(age).to_have_text(re.compile(r"^(today|(△ old, |▲ stale, )?\d+ d)$"), timeout=LONG_MS)
    notebook.run("%nbprov down --all")
