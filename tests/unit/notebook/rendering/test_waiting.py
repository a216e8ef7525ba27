"""A run that waits for stock, in all its forms: until when, when it tries again, and that
nothing is billed."""

from __future__ import annotations

from dataclasses import replace

from sample_views import NOW, launching_run, ready_run, waiting_run

from nbprov.model.clusters import AttemptState, RunState, RunView, Waiting
from nbprov.notebook.rendering.run_facts import run_facts
from nbprov.notebook.rendering.run_lines import run_lines
from nbprov.notebook.rendering.runs import run_html, run_text

NOTES = (
    "race: up to 2 places at once",
    "wait: where nothing is in stock it is watched for 2 h from Launch on",
)


def resting(passes: int = 3) -> RunView:
    """A run between two passes."""
    view = launching_run()
    refused = tuple(replace(a, state=AttemptState.REFUSED, ended=NOW + 2.0) for a in view.attempts)
    wait = Waiting(NOW + 7200.0, NOW + 200.0, passes)
    return replace(
        view,
        state=RunState.WAITING,
        message="nothing in stock",
        attempts=refused,
        waiting=wait,
        notes=NOTES,
    )


def test_every_form_says_until_when_and_when_it_tries_again() -> None:
    view = resting()
    said = run_facts(view).waiting
    assert said.startswith("waiting for stock until 20")
    assert said.endswith("UTC or sooner; 3 passes so far; nothing is billed meanwhile")
    assert said in run_text(view)
    assert said in run_html(view)
    assert "waiting for stock" in run_text(view)
    for note in NOTES:
        assert note in run_text(view)
        assert note in run_html(view)


def test_what_is_still_being_ended_is_on_the_bill() -> None:
    view = resting()
    ending = replace(view.attempts[0], state=AttemptState.ENDING)
    assert (
        "nothing is billed"
        not in run_facts(replace(view, attempts=(ending, *view.attempts[1:]))).waiting
    )


def test_before_launch_the_notes_stand_under_the_plan() -> None:
    view = replace(waiting_run(), notes=NOTES)
    assert NOTES[0] in run_text(view)
    assert NOTES[0] in run_html(view)


def test_a_pass_that_goes_on_has_its_number() -> None:
    view = replace(launching_run(), waiting=Waiting(NOW + 7200.0, None, 2))
    assert run_facts(view).waiting.endswith("pass 2 over the plan is running")


def test_a_run_that_ended_waits_no_more_and_says_how_often_it_tried() -> None:
    view = replace(ready_run(), waiting=Waiting(NOW + 7200.0, None, 2), notes=NOTES)
    facts = run_facts(view)
    assert facts.waiting == ""
    assert any("4 attempts, 2 passes" in line for line in facts.summary)
    assert NOTES[0] not in run_text(view)


def test_a_log_has_one_line_a_rest_and_each_note_once() -> None:
    launched = replace(launching_run(), notes=NOTES)
    first = run_lines(None, launched)
    assert [line for line in first if line in NOTES] == list(NOTES)
    then = run_lines(launched, resting())
    assert [line for line in then if "waiting for stock until" in line] == [
        f"dev: {run_facts(resting()).waiting}"
    ]
    assert not [line for line in then if line in NOTES]
    assert run_lines(resting(), resting()) == []


def test_of_a_wait_of_days_the_latest_attempts_are_shown_and_what_is_not_over() -> None:
    view = resting()
    one = view.attempts[0]
    many = tuple(
        replace(one, number=i, token=f"{i}", state=AttemptState.ENDING if i == 3 else one.state)
        for i in range(1, 5001)
    )
    facts = run_facts(replace(view, attempts=many))
    assert [a.number for a in facts.attempts] == [3, *range(4901, 5001)]
    told = "4,899 earlier attempts are not shown; %nbprov attempts dev lists them"
    assert facts.earlier == told
    ended = run_facts(replace(view, attempts=many, state=RunState.FAILED))
    assert ended.earlier == told
    assert told in run_text(replace(view, attempts=many, state=RunState.FAILED))
    assert len(run_html(replace(view, attempts=many))) < 20_000
