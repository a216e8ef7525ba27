"""The first line of a launch in its saved forms, which stays true however late it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_views as samples

from nbprov.api.run_progress import at_the_end
from nbprov.model.clusters import ClusterState, RunView
from nbprov.notebook.rendering.run_facts import run_facts
from nbprov.notebook.rendering.run_headline import headline
from nbprov.notebook.rendering.runs import run_html, run_text

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "widgets" / "headline_cases.json").read_text(
        encoding="utf-8"
    )
)
RUNS = [samples.waiting_run, samples.launching_run, samples.ready_run, samples.failed_run]
ELAPSED = re.compile(r"\bfor \d|\bago\b|\bin \d")


@pytest.mark.parametrize("given", CASES, ids=[one["case"] for one in CASES])
def test_the_fields_of_the_live_line_make_the_saved_one(given: dict[str, Any]) -> None:
    """The cases are also those of the tests of the panels' code."""
    facts = replace(run_facts(samples.waiting_run()), attempts=(), **given["state"])
    _, *parts, stamp = headline(samples.waiting_run(), facts)
    assert " · ".join(parts) == given["saved"]
    assert stamp.startswith("as of 2026-11-21 ")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_every_form_begins_with_it_and_says_no_time_that_goes_on(
    run: Callable[[], RunView],
) -> None:
    view = replace(run(), ended=samples.NOW + 40.0)
    line = " · ".join(headline(view, run_facts(view)))
    assert not ELAPSED.search(line)
    assert re.sub(r"<[^>]*>", "", run_html(view)).strip().startswith(line)
    # A terminal may have no room for all of it in one line.
    assert run_text(view).replace("\n    ", " · ").startswith(line)


def test_it_says_what_is_billed_and_as_of_when() -> None:
    view = samples.launching_run()
    assert headline(view, run_facts(view))[2:] == (
        "cost $0.0039 so far",
        "$2.50/h",
        "simulated: you pay $0",
        "as of 2026-11-21 08:09:40 UTC",
    )
    over = samples.failed_run()
    assert "cost $0.0039" in headline(over, run_facts(over))


def test_a_cluster_that_has_ended_says_when() -> None:
    gone = replace(samples.cluster(state=ClusterState.ENDED), ended=samples.NOW + 600.0)
    view = replace(samples.ready_run(), cluster=gone, ended=samples.NOW + 40.0)
    ended = at_the_end(view)
    title, when, *_ = headline(ended, run_facts(ended))
    assert (title, when) == ("dev: ■ ended", "at 2026-11-21 08:19:10 UTC")
