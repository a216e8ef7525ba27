"""What `%nbprov dashboard` shows, and when it is renewed."""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbprov import api
from nbprov.notebook.commands import dashboard
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.frontend import Frontend
from nbprov.notebook.panels.live_display import LiveDisplay

COME_SECONDS = 60.0


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    made = api.session()
    yield made
    DisplayFollower.stop_all()
    api.close()


def shown() -> LiveDisplay[dashboard.DashboardView]:
    """A dashboard that is kept up to date."""
    subject = dashboard.dashboard_subject()
    display = LiveDisplay(subject.panel(subject.snapshot()), where=Frontend.STATIC)
    subject.follow(display)
    return display


def test_it_is_renewed_while_somebody_sees_it_and_not_by_itself(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[str] = []
    looks: list[str] = []
    monkeypatch.setattr(session.services.market, "look", lambda: looks.append("market"))
    monkeypatch.setattr(DisplayFollower, "changed", lambda self: changes.append("renewed"))
    engine = session.engine

    async def turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    panel = shown().panel
    engine.thread.call(turns()).result()
    changes.clear()
    monkeypatch.setattr(dashboard, "REFRESH", 0.0)
    engine.thread.call(turns()).result()
    assert changes == [], "nobody looked"
    panel._handle("look", {})
    engine.thread.call(turns()).result()
    assert changes == ["renewed"]
    monkeypatch.setattr(dashboard, "REFRESH", 3600.0)
    panel._handle("look", {})
    engine.thread.call(turns()).result()
    assert changes == ["renewed"], "it is as new as it was"
    assert len(looks) == 2, "what is known of markets is read for each look, if it is old"


def test_where_no_page_looks_markets_are_read_at_once(
    session: api.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    dashboard.run(None, argparse.Namespace(), None)
    assert "age of prices" in capsys.readouterr().out


def test_several_are_kept_up_to_date_and_the_oldest_becomes_its_static_form(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "MOST_FOLLOWING", 2)
    first, *others = (shown() for _ in range(3))
    before = {display: display.panel.view for display in (first, *others)}
    DisplayFollower.flush()
    assert first.panel.view is before[first]
    assert all(display.panel.view is not before[display] for display in others)


async def nothing() -> None:
    """What the engine's thread does at once, unless it is held up."""


def test_the_engine_works_on_while_a_dashboard_is_read(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    read: list[str] = []
    real = dashboard.overview
    shown()

    def slow(*args: Any) -> Any:
        read.append(threading.current_thread().name)
        begun.set()
        assert go_on.wait(COME_SECONDS)
        return real(*args)

    monkeypatch.setattr(dashboard, "overview", slow)
    engine = session.engine
    engine.changed()
    assert begun.wait(COME_SECONDS)
    for _ in range(5):
        engine.changed()
        engine.thread.call(nothing()).result(COME_SECONDS)
    go_on.set()
    DisplayFollower.flush()
    assert all("engine" not in name for name in read)
    assert len(read) <= 3, "changes meanwhile are read together"
