"""The static forms: HTML for every viewer, text that fits a terminal, and lines without repeats."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_views as samples
from hypothesis import given
from hypothesis import strategies as st

from nbprov.model.clock import short_duration
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.failures import RULES, Cause, Failure
from nbprov.model.money import format_usd
from nbprov.model.offers import Plan
from nbprov.model.places import Place
from nbprov.model.spec import Spec
from nbprov.notebook.rendering.clusters import clusters_html, clusters_text
from nbprov.notebook.rendering.formatting import (
    ATTEMPT_LOOKS,
    CLUSTER_LOOKS,
    RUN_LOOKS,
    format_age,
    format_number,
    format_place,
)
from nbprov.notebook.rendering.price_data import TableData
from nbprov.notebook.rendering.prices import plan_html, plan_text, table_html, table_text
from nbprov.notebook.rendering.run_lines import attempt_line, run_lines
from nbprov.notebook.rendering.runs import run_html, run_text
from nbprov.notebook.rendering.tables import Column, cut, html_table, one_line, text_table, width_of

TERMINAL = 120
RUNS = [samples.waiting_run, samples.launching_run, samples.ready_run, samples.failed_run]
CASES = json.loads(
    (Path(__file__).resolve().parents[2] / "widgets" / "format_cases.json").read_text(
        encoding="utf-8"
    )
)
ALLOWED = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "pre", "span"}


class Parsed(HTMLParser):
    """The tags and texts of a page; parsing fails if a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style", "border", "cellpadding", "scope", "class"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_both_forms_write_numbers_alike() -> None:
    """The cases are also those of the tests of the panels' code."""
    assert [format_usd(v) for v, _ in CASES["usd"]] == [w for _, w in CASES["usd"]]
    assert [short_duration(v) for v, _ in CASES["duration"]] == [w for _, w in CASES["duration"]]
    assert [format_number(v) for v, _ in CASES["quantity"]] == [w for _, w in CASES["quantity"]]
    assert [format_age(v, date(2026, 11, 21)) for v, _ in CASES["age"]] == [
        w for _, w in CASES["age"]
    ]
    assert format_number(math.nan) == "–"


def test_every_state_has_a_look_and_no_two_of_a_kind_the_same_words() -> None:
    for states, looks in (
        (RunState, RUN_LOOKS),
        (AttemptState, ATTEMPT_LOOKS),
        (ClusterState, CLUSTER_LOOKS),
    ):
        assert set(looks) == set(states)
        assert len({look.words for look in looks.values()}) == len(looks)


@pytest.mark.parametrize("page", [r() for r in RUNS], ids=lambda v: v.state.value)
def test_run_html_is_plain_and_whole(page: object) -> None:
    parsed = Parsed(run_html(page))  # type: ignore[arg-type]
    assert parsed.tags <= ALLOWED


def test_html_of_tables_is_plain() -> None:
    pages = [
        plan_html(samples.plan()),
        table_html(TableData.from_offers(samples.offers(30), total=40_000)),
        clusters_html(samples.clusters(), samples.NOW),
    ]
    for page in pages:
        assert Parsed(page).tags <= ALLOWED
    assert "39,980 more rows" in pages[1]
    assert all(o.as_of in pages[1] for o in samples.offers(30)[:20]), (
        "a saved page tells the date of a price, not its age"
    )


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "a & b <i>", "]]>"]
)
def test_nothing_from_outside_is_markup(evil: str) -> None:
    offer = replace(
        samples.local_offer(evil, "1"),
        instance_type=evil,
        accelerator=evil,
        source=evil,
        as_of=evil,
    )
    view = samples.launching_run()
    candidate = replace(view.attempts[0].candidate, offer=offer)
    bad = replace(view.attempts[0], candidate=candidate, failure=Failure(Cause.UNKNOWN, evil))
    run = replace(
        view,
        name=evil,
        message=evil,
        error=evil,
        log_path=evil,
        attempts=(bad,),
        state=RunState.FAILED,
    )
    cluster = replace(samples.cluster(evil), candidate=candidate, reason=evil)
    for page in (
        run_html(run),
        table_html(TableData.from_offers([offer])),
        clusters_html([cluster], samples.NOW),
    ):
        parsed = Parsed(page)
        assert parsed.tags <= ALLOWED
        assert evil in "".join(parsed.texts)


def test_text_forms_fit_a_terminal() -> None:
    texts = [run_text(r()) for r in RUNS]
    texts += [
        plan_text(samples.plan(60, 2)),
        table_text(TableData.from_offers(samples.offers(300))),
        clusters_text(samples.clusters(), samples.NOW),
    ]
    for text in texts:
        assert max(width_of(line) for line in text.splitlines()) < TERMINAL


def test_no_line_of_a_cloud_reaches_the_terminal_raw() -> None:
    """A message may hold escape sequences or line breaks, and neither moves the reader's cursor."""
    view = samples.launching_run()
    nasty = replace(view.attempts[0], failure=Failure(Cause.UNKNOWN, "one\x1b[2Jtwo\r\nthree\x07"))
    evil = replace(
        view,
        attempts=(nasty,),
        message="up\x1b[1A",
        error="two\nlines\x1b]0;title\x07",
        state=RunState.FAILED,
    )
    said = [*run_text(evil).split("\n"), attempt_line(nasty), *run_lines(None, evil)]
    assert all(line.isprintable() for line in said)


def test_a_plan_says_its_order_consent_guards_and_what_was_left_out() -> None:
    text = plan_text(samples.plan(40))
    for said in (
        "40 places to try",
        "Costs at most",
        "guards: down after 1 h idle (default)",
        "1,204 in clouds without",
        "20 more rows",
    ):
        assert said in text
    ranks = re.findall(r"^ ?(\d+)  ", text, re.MULTILINE)
    assert ranks == [str(i) for i in range(1, 21)]


def test_a_simulated_plan_says_that_nobody_pays() -> None:
    assert "simulated: you pay $0" in plan_text(samples.local_plan())
    assert "simulated" not in plan_text(samples.plan(5))


@pytest.mark.parametrize(
    "page",
    [run_html(r()) for r in RUNS]
    + [clusters_html(samples.clusters(), samples.NOW), plan_html(samples.plan())],
)
def test_no_price_is_set_as_a_formula(page: str) -> None:
    """Notebooks pass HTML outputs to MathJax, which typeset `$1.40/h instead of $1.05/h` as a
    formula."""
    assert "tex2jax_ignore" in page
    assert all(text.count("$") < 2 for text in Parsed(page).texts)


def test_an_empty_plan_and_no_offers_say_so() -> None:
    empty = Plan(Spec(), [])
    assert plan_text(empty).startswith("no offer satisfies the spec")
    assert "no offer satisfies the spec" in plan_html(empty)
    assert "not kept" in plan_text(replace(empty, is_kept=False)), "it was not empty"
    assert table_text(TableData.from_offers([])) == "no offers"
    assert clusters_text([], samples.NOW) == "no clusters"
    assert "no clusters" in clusters_html([], samples.NOW)


def test_a_plan_of_many_builds_only_the_rows_it_shows() -> None:
    built: list[int] = []
    candidates = samples.plan(40).candidates

    class Lazy:
        def __len__(self) -> int:
            return 40_000

        def __getitem__(self, index: int) -> object:
            built.append(index)
            if index >= len(self):
                raise IndexError(index)
            return candidates[index % 40]

    text = plan_text(Plan(Spec(), Lazy()))  # type: ignore[arg-type]
    assert "40,000 places" in text
    assert max(built) < 25


def test_a_run_tells_reasons_costs_and_the_next_step() -> None:
    text = run_text(samples.ready_run())
    for said in (
        "out of stock",
        "over your quota",
        "took too long",
        "next: %%on dev",
        "cost $0.0123 so far · $1.40/h · simulated: you pay $0",
        "127.0.0.1 port 40022",
    ):
        assert said in text
    assert "it costs more than the first place of the plan: $1.40/h instead of $1.05/h" in text


def test_a_failed_run_says_what_is_left_of_it() -> None:
    view = samples.failed_run()
    assert "nothing of this launch is billed" in run_text(view)
    ending = replace(view, attempts=(*view.attempts[:2], samples.launching_run().attempts[2]))
    text = run_text(ending)
    assert "nothing of this launch is billed" not in text
    assert "not yet confirmed gone: attempt 3 in local/local-north/c at $1.10/h" in text


def test_an_attempt_in_one_line() -> None:
    first, second = samples.launching_run().attempts[:2]
    expected = (
        "attempt 1  local/local-north/a  a100x1  $1.05/h  refused: out of stock: "
        "InsufficientInstanceCapacity: no a100x1 left in local-north/a"
    )
    assert attempt_line(first) == expected
    spot = replace(second.candidate, offer=samples.local_offer("b", "0.40", spot=True), count=2)
    line = attempt_line(replace(second, candidate=spot, state=AttemptState.BOOTING, failure=None))
    assert line == "attempt 2  local/local-north/b  2 × a100x1  spot  $0.80/h  booting"


def test_lines_tell_each_change_once() -> None:
    views = [
        samples.waiting_run(),
        samples.launching_run(),
        samples.launching_run(),
        samples.ready_run(),
        samples.ready_run(),
    ]
    told: list[list[str]] = []
    before = None
    for view in views:
        told.append(run_lines(before, view))
        before = view
    assert told[2] == told[4] == []
    assert [line for line in told[1] if line.startswith("attempt 1 ")] == [
        attempt_line(views[1].attempts[0])
    ]
    assert not any(line.startswith("attempt 1 ") for line in told[3])
    assert told[3][0].startswith("attempt 3 ")
    assert "next: %%on dev" in told[3]


def test_lines_alone_tell_the_whole_story() -> None:
    lines = run_lines(None, samples.failed_run())
    assert sum(line.startswith("attempt ") for line in lines) == 4
    assert lines[-1].strip() == "next: allow more places or GPU types"


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_said_in_words(cause: Cause) -> None:
    view = samples.launching_run()
    attempt = replace(view.attempts[0], failure=Failure(cause, "raw"))
    assert RULES[cause].words in run_html(replace(view, attempts=(attempt,)))


def test_clusters_say_what_they_cost_and_what_is_simulated() -> None:
    text = clusters_text(samples.clusters(), samples.NOW + 60)
    assert text.startswith("3 clusters, $55.04/h and $1.40/h simulated")
    assert "$0.0123*" in text
    assert "* simulated: you pay $0" in text
    assert "$128.40*" not in text
    assert "guards of train-llm: down after 1 h idle (default)" in text


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("gcp", "us-central1", "us-central1-a"), "gcp/us-central1-a"),
        (Place("aws", "us-east-1", "use1-az1"), "aws/us-east-1/use1-az1"),
        (Place("lambda", "us-south-1"), "lambda/us-south-1"),
        (Place("vast", "", ""), "vast"),
    ],
)
def test_a_place_does_not_say_its_region_twice(place: Place, words: str) -> None:
    assert format_place(place) == words


@given(st.text(), st.integers(1, 60))
def test_cutting_never_exceeds_the_width(text: str, width: int) -> None:
    line = one_line(text)
    assert width_of(cut(line, width)) <= max(width, 1)
    assert "\n" not in line


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=200)), max_size=5))
def test_tables_of_anything_stay_aligned_and_escaped(rows: list[tuple[str, str]]) -> None:
    columns = [Column("a", right=True, flexible=True), Column("b", flexible=True)]
    lines = text_table(columns, rows, width=60)
    assert len(lines) == len(rows) + 2
    assert all(width_of(line) <= 60 for line in lines)
    assert Parsed(html_table(columns, rows)).tags <= ALLOWED


def test_a_log_in_the_home_folder_does_not_name_its_owner() -> None:
    inside = replace(samples.ready_run(), log_path=str(Path.home() / "logs" / "a.log"))
    for form in (run_html(inside), run_text(inside)):
        assert f"log: {Path('~') / 'logs' / 'a.log'}" in form
        assert str(Path.home() / "logs") not in form
    outside = str(Path.home().parent / "elsewhere" / "a.log")
    assert f"log: {outside}" in run_text(replace(inside, log_path=outside))


def test_places_and_types_of_attempts_are_not_broken_at_their_hyphens() -> None:
    run = samples.launching_run()
    offer = run.attempts[0].candidate.offer
    for words in (format_place(offer.place), offer.instance_type):
        assert f'white-space:nowrap">{words}</td>' in run_html(run)


def test_only_numbers_that_could_be_broken_say_that_they_are_not() -> None:
    """A browser may break a price after its slash; the words are saved where none can break."""
    table = html_table([Column("#", right=True), Column("$", right=True)], [["1", "$3.30/h"]])
    assert 'text-align:right">1</td>' in table
    assert 'white-space:nowrap">$3.30/h</td>' in table
