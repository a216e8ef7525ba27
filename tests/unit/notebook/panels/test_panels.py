"""The panels in this process: their messages to and from the browser, and their static forms."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_views as samples

from nbprov.model.clusters import ClusterState, RunView
from nbprov.model.errors import UsageError
from nbprov.notebook.panels import frontend as panel_frontend
from nbprov.notebook.panels.clusters_table import ClustersTable, ClustersView
from nbprov.notebook.panels.comm_routing import allow_subshells
from nbprov.notebook.panels.frontend import Frontend, current, is_interactive
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.panels.panel import Panel
from nbprov.notebook.panels.price_table import PriceTable
from nbprov.notebook.panels.run_panel import RunPanel
from nbprov.notebook.panels.widget import PageLinkWidget
from nbprov.notebook.rendering.clusters import ClusterFacts
from nbprov.notebook.rendering.packed_table import FIRST_PAGE
from nbprov.notebook.rendering.prices import PlanFacts
from nbprov.notebook.rendering.run_facts import AttemptFacts

TYPES = (Path(__file__).resolve().parents[4] / "widgets" / "types.d.ts").read_text(encoding="utf-8")
WIDGET = "application/vnd.jupyter.widget-view+json"
PANELS: list[Panel[Any]] = [
    PriceTable(samples.offers(30)),
    RunPanel(samples.ready_run()),
    ClustersTable(ClustersView(tuple(samples.clusters()), samples.NOW)),
]


class Browser:
    """Receives what a panel's widget sends, and sends what a browser would."""

    def __init__(self, panel: Panel[Any]) -> None:
        panel.widget_bundle()
        self.panel = panel
        self.heard: list[tuple[dict[str, Any], list[bytes]]] = []
        assert panel.widget is not None
        panel.widget.send = lambda content, buffers=None: self.heard.append(
            (content, buffers or [])
        )

    def say(self, **message: Any) -> None:
        self.panel.widget._handle_custom_msg(message, [])  # type: ignore[union-attr]


def documented(name: str) -> set[str]:
    """Return the fields of an interface in types.d.ts."""
    body = re.search(rf"export interface {name} \{{(.*?)\n\}}", TYPES, re.DOTALL)
    assert body is not None
    return set(re.findall(r"^  (\w+):", body[1], re.MULTILINE))


def test_the_state_is_what_the_types_say() -> None:
    run = RunPanel(samples.ready_run()).state()
    assert set(run) == documented("RunState")
    assert (
        set(run["attempts"][0])
        == documented("AttemptState")
        == set(AttemptFacts.__dataclass_fields__)
    )
    assert set(run["plan"]) == documented("PlanState") == set(PlanFacts.__dataclass_fields__)
    table = ClustersTable(samples.clusters()).state()
    assert set(table) == documented("ClustersState")
    assert (
        set(table["clusters"][0])
        == documented("ClusterState")
        == set(ClusterFacts.__dataclass_fields__)
    )
    assert set(PriceTable([]).state()) == documented("PriceState")


@pytest.mark.parametrize("panel", PANELS, ids=lambda p: type(p).__name__)
def test_the_static_form_and_the_widget_are_two_bundles(panel: Panel[Any]) -> None:
    data, _ = panel.widget_bundle()
    assert set(data) == {WIDGET, "text/html", "text/plain"}
    assert data["text/html"] == data["text/plain"] == "", (
        "it would be shown twice where there are no widgets"
    )
    for data, metadata in (panel.static_bundle(), panel._repr_mimebundle_()):
        assert data == {"text/html": panel.html(), "text/plain": panel.text()}
        assert metadata == {}
    assert panel.text() == repr(panel)
    json.dumps(panel.state(), allow_nan=False)


@pytest.mark.parametrize("panel", PANELS, ids=lambda p: type(p).__name__)
def test_the_widget_knows_the_static_form_that_it_hides(panel: Panel[Any]) -> None:
    panel.widget_bundle()
    assert panel.widget is not None
    html = panel.static_bundle(beside_widget=True)[0]["text/html"]
    assert html.startswith(f'<div data-nbprov="{panel.widget.anchor}">')
    assert panel.html() in html
    assert panel.widget.anchor not in panel.html()
    assert len(
        {other.static_bundle(beside_widget=True)[0]["text/html"][:60] for other in PANELS}
    ) == len(PANELS)


def test_table_data_is_sent_on_request_and_is_in_no_trait() -> None:
    panel = PriceTable(samples.offers(40_000))
    browser = Browser(panel)
    assert panel.widget is not None
    state = {k: v for k, v in panel.widget.get_state().items() if k not in ("_esm", "_css")}
    assert len(json.dumps(state)) < 2_000
    browser.say(type="ready", view="v1", version=1)
    (message, buffers), (later, rest) = browser.heard
    assert (message["type"], message["view"], message["version"]) == ("table", "v1", 1)
    assert message["table"]["rows"] == 40_000
    assert len(buffers) == len(rest) == len(message["table"]["columns"])
    assert (message["start"], message["end"]) == (0, FIRST_PAGE)
    assert (later["type"], later["version"]) == ("rows", 1)
    assert (later["start"], later["end"]) == (FIRST_PAGE, 40_000)


def test_a_page_that_answers_at_once_is_heard() -> None:
    class Opened(PageLinkWidget):
        def open(self) -> None:
            super().open()
            self._handle_custom_msg({"type": "forms", "forms": []}, [])

    heard: list[Any] = []
    Opened(lambda _widget, content, _buffers: heard.append(content))
    assert heard == [{"type": "forms", "forms": []}]


def test_what_a_notebook_saves_of_forty_thousand_rows_is_small() -> None:
    panel = PriceTable(samples.offers(40_000))
    data = [panel.static_bundle(beside_widget=True), panel.widget_bundle()]
    assert panel.widget is not None
    with_state = len(json.dumps(data)) + len(json.dumps(panel.widget.get_state()))
    assert len(json.dumps(data)) < 25_000
    assert with_state < 50_000


def test_other_prices_get_another_version() -> None:
    panel = PriceTable(samples.offers(3))
    browser = Browser(panel)
    panel.update(samples.offers(5))
    assert panel.state()["version"] == 2
    browser.say(type="ready", view="v", version=2)
    assert browser.heard[0][0]["table"]["rows"] == 5


def test_an_update_of_a_run_keeps_its_plan_in_the_browser() -> None:
    panel = RunPanel(samples.waiting_run())
    panel.update(samples.launching_run())
    assert panel.state()["version"] == 1
    panel.update(replace(samples.launching_run(), plan=samples.plan(9)))
    assert panel.state()["version"] == 2


def test_buttons_call_whoever_listens() -> None:
    called: list[object] = []
    panel = RunPanel(
        samples.waiting_run(),
        on_launch=lambda: called.append("launch"),
        on_cancel=lambda: called.append("cancel"),
        on_down=lambda name: called.append(("down", name)),
        on_prefer=called.append,
        on_widen=called.append,
        on_longer=lambda: called.append("longer"),
    )
    browser = Browser(panel)
    browser.say(type="launch")
    browser.say(type="cancel")
    browser.say(type="down", name="dev")
    browser.say(type="prefer", ranks=[3, 1], version=1)
    browser.say(type="widen", words="max_price: 4")
    browser.say(type="longer")
    shown = panel.view.plan.candidates
    chosen = (shown[3].key, shown[1].key)
    assert called == ["launch", "cancel", ("down", "dev"), chosen, "max_price: 4", "longer"]
    browser.say(type="prefer", ranks=[3, 1], version=0)
    assert len(called) == 6, "the ranks are of a table that is not shown any more"
    assert "has changed meanwhile" in browser.heard[-1][0]["text"]
    browser.say(type="prefer", ranks=[len(shown)], version=1)
    assert len(called) == 6, "the plan has no such rank"
    browser.say(type="prefer", ranks=[], version=0)
    assert called[6:] == [()], "the plan's own order is that of any table"
    called = called[:4]
    table = ClustersTable(samples.clusters(), on_stop=called.append, on_start=called.append)
    browser = Browser(table)
    browser.say(type="stop", name="a")
    browser.say(type="start", name="b")
    browser.say(type="down", name="nobody listens")
    assert called[4:] == ["a", "b"]
    assert table.state()["actions"] == ["stop", "start"]


def test_a_refusal_is_shown_in_the_panel() -> None:
    def refuse() -> None:
        raise UsageError("the run is over.", hint="run the cell again")

    browser = Browser(RunPanel(samples.waiting_run(), on_launch=refuse))
    browser.say(type="launch")
    assert browser.heard[0][0] == {
        "type": "notice",
        "view": "",
        "text": "the run is over. run the cell again",
    }


@pytest.mark.parametrize("message", [{}, {"type": "unheard-of"}, {"type": "sync", "view": 7}])
def test_messages_of_another_release_do_no_harm(message: dict[str, Any]) -> None:
    panel = RunPanel(samples.waiting_run())
    browser = Browser(panel)
    browser.say(**message)
    browser.say(type="sync", view="v9")
    answer = browser.heard[-1][0]
    assert (answer["view"], answer["state"]) == ("v9", panel.state())
    assert all(content["type"] == "state" for content, _ in browser.heard)


def test_a_view_that_asks_gets_the_state_with_its_age() -> None:
    panel = RunPanel(samples.launching_run())
    browser = Browser(panel)
    browser.say(type="sync", view="v9")
    message = browser.heard[0][0]
    assert (message["type"], message["view"]) == ("state", "v9")
    assert message["state"] == panel.state()
    assert 0 <= message["age"] < 60


def test_the_routing_guard_is_set_where_ipykernel_needs_it() -> None:
    class NewComm:
        def _reply_subshell_for(self, data: object, default: object) -> object:
            return "the shell that sent last"

    class OldComm:
        __slots__ = ()

    class Holder:
        def __init__(self, comm: object) -> None:
            self.comm = comm

    new = Holder(NewComm())
    allow_subshells(new)
    assert (
        new.comm._reply_subshell_for({}, "what the browser asked for")
        == "what the browser asked for"
    )  # type: ignore[attr-defined]
    allow_subshells(Holder(OldComm()))
    allow_subshells(Holder(None))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"JPY_SESSION_NAME": "/a.ipynb"}, True),
        ({"JPY_SESSION_NAME": "/a.ipynb", "NBPROV_NONINTERACTIVE": "1"}, False),
        ({"NBPROV_NONINTERACTIVE": "0"}, True),
        ({"COLAB_RELEASE_TAG": "release-colab"}, True),
        ({"SERVER_SOFTWARE": "voila/0.5.13"}, True),
        ({"SERVER_SOFTWARE": "nginx"}, False),
    ],
)
def test_who_looks_on_is_read_from_the_environment(environ: dict[str, str], expected: bool) -> None:
    assert is_interactive(environ) is expected


def test_a_script_has_text_only() -> None:
    assert current({"JPY_SESSION_NAME": "/a.ipynb"}) is Frontend.TEXT


def test_a_display_in_a_terminal_queues_lines_and_prints_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display: LiveDisplay[RunView] = LiveDisplay(
        RunPanel(samples.waiting_run()), where=Frontend.TEXT
    )
    display.freeze()
    display.update(samples.waiting_run())
    assert display.take_lines() == []
    display.show()
    assert any("waiting for Launch" in line for line in display.take_lines())
    display.update(samples.launching_run())
    display.update(samples.launching_run())
    assert sum(line.startswith("attempt ") for line in display.take_lines()) == 4
    display.update(samples.ready_run())
    display.freeze()
    assert "next: %%on dev" in display.take_lines()
    assert display.take_lines() == []
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UsageError):
        display.show()


def test_a_live_panel_queues_no_lines() -> None:
    display: LiveDisplay[RunView] = LiveDisplay(
        RunPanel(samples.waiting_run()), where=Frontend.WIDGETS
    )
    display.show()
    display.update(samples.ready_run())
    assert display.take_lines() == []


def test_updates_of_many_threads_lose_no_last_state() -> None:
    panel = ClustersTable(ClustersView((), 0.0))
    Browser(panel)
    display: LiveDisplay[ClustersView] = LiveDisplay(panel, where=Frontend.WIDGETS)
    states = list(ClusterState)

    def push(offset: int) -> None:
        for i in range(50):
            view = samples.cluster(state=states[(i + offset) % len(states)])
            display.update(ClustersView((view,), float(i)))

    threads = [threading.Thread(target=push, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert panel.widget is not None
    assert panel.widget.state == panel.state()


def test_a_closed_panel_can_still_be_read_and_updated() -> None:
    panel = RunPanel(samples.waiting_run())
    panel.widget_bundle()
    panel.close()
    panel.update(samples.ready_run())
    assert panel.widget is None
    assert "ready" in panel.text()


def test_an_empty_price_table_says_what_was_looked_for() -> None:
    assert PriceTable([], title="prices of A100").text() == "prices of A100: no offers"
    assert "prices of A100: no offers" in PriceTable([], title="prices of A100").html()


def test_the_saved_form_of_a_live_panel_is_renewed_with_its_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Publisher:
        def __init__(self) -> None:
            self.sent: list[tuple[bool, dict[str, Any]]] = []

        def publish(self, *, data: dict[str, Any], update: bool = False, **_: Any) -> None:
            self.sent.append((update, data))

    class Shell:
        display_pub = Publisher()

    monkeypatch.setattr(panel_frontend, "shell", Shell)
    display: LiveDisplay[RunView] = LiveDisplay(
        RunPanel(samples.waiting_run()), where=Frontend.WIDGETS
    )
    display.show()
    sent = Shell.display_pub.sent
    assert [(update, WIDGET in data) for update, data in sent] == [(False, False), (False, True)]
    display.update(replace(samples.waiting_run(), now=samples.NOW + 1))
    assert len(sent) == 2, "the time alone is no news"
    display.update(samples.launching_run())
    display.freeze()
    assert [(update, WIDGET in data) for update, data in sent[2:]] == [(True, False)]
    assert "launching" in sent[2][1]["text/plain"]


def test_a_machine_that_is_ready_can_be_stopped_and_logged_in_to() -> None:
    stopped: list[str] = []
    panel = RunPanel(samples.ready_run(), on_stop=stopped.append, ssh=lambda name: f"ssh to {name}")
    browser = Browser(panel)
    assert panel.state()["is_running"]
    assert {"stop", "ssh"} <= {*panel.state()["actions"]}
    browser.say(type="stop", name="dev")
    assert stopped == ["dev"]
    browser.say(type="ssh", name="dev", view="v1")
    ((message, _),) = browser.heard
    assert (message["type"], message["view"], message["text"]) == ("copy", "v1", "ssh to dev")
    assert not RunPanel(samples.waiting_run()).state()["is_running"]


def test_a_console_that_a_person_opens_is_asked_for_by_its_attempt() -> None:
    asked: list[tuple[str, str]] = []
    panel = RunPanel(samples.ready_run(), on_console=lambda *told: asked.append(told))
    state = panel.state()
    assert "console" in state["actions"]
    assert [one["has_machine"] for one in state["attempts"]] == [False, False, True, True]
    Browser(panel).say(type="console", key="abc", view="v1")
    assert asked == [("abc", "v1")]
