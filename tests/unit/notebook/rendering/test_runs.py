"""The price of a race, the lines of a launch, the end of a cancelled launch, and blocks."""

from __future__ import annotations

import concurrent.futures
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sample_views

from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause
from nbprov.model.offers import Dropped, DropRule, RuleKind
from nbprov.notebook.magics.interrupts import describe_cancellation
from nbprov.notebook.rendering.prices import consent_text
from nbprov.notebook.rendering.run_facts import run_facts
from nbprov.notebook.rendering.run_lines import run_lines
from nbprov.notebook.rendering.runs import run_text
from nbprov.provisioning.run.unavailable import Unavailable

VIEW = sample_views.launching_run()


def test_a_race_may_cost_as_many_times_the_dearest_as_race() -> None:
    dearest = VIEW.plan.dearest or VIEW.plan.chosen
    assert dearest is not None
    one, three = consent_text(VIEW.plan, 1), consent_text(VIEW.plan, 3)
    assert "at once" not in one
    assert "3 places are tried at once" in three
    assert one in three


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        (
            RunState.CANCELLED,
            None,
            "dev: cancelled; all its machines are confirmed gone; it cost $1",
        ),
        (RunState.FAILED, None, "dev: cancelled; all its machines are confirmed gone; it cost $1"),
        (RunState.READY, None, "dev: it was ready before it could be cancelled"),
        (RunState.ENDED, None, "dev: it may not be gone: taken over"),
        (None, NbprovError("the ledger is gone"), "dev: it may not be gone: the ledger is gone"),
    ],
)
def test_only_what_is_known_is_called_confirmed(
    state: RunState | None, error: Exception | None, said: str
) -> None:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_exception(error) if error is not None else future.set_result(state)
    run: Any = SimpleNamespace(name="dev", view=lambda: SimpleNamespace(message="taken over"))
    told = describe_cancellation(run, future, lambda: "$1")
    assert told.startswith(said)
    assert ("confirmed" in told) == (state in (RunState.CANCELLED, RunState.FAILED))


def test_lines_leave_out_the_steps_that_follow_by_themselves() -> None:
    first = VIEW.attempts[0]
    launching = replace(
        VIEW, state=RunState.LAUNCHING, attempts=(), cluster=None, message="attempt 1 asked"
    )
    told = [run_lines(replace(launching, attempts=()), launching)]
    before = launching
    for state in (
        AttemptState.INTENT,
        AttemptState.SENT,
        AttemptState.ACCEPTED,
        AttemptState.SSH,
        AttemptState.AGENT,
        AttemptState.READY,
    ):
        now = replace(launching, attempts=(replace(first, state=state, failure=None),))
        told.append(run_lines(before, now))
        before = now
    said = [line for lines in told for line in lines]
    assert [line.split()[-1] for line in said] == ["accepted", "ready"]
    planned = replace(launching, state=RunState.PLANNED)
    both = run_lines(
        planned,
        replace(launching, attempts=(replace(first, state=AttemptState.ACCEPTED, failure=None),)),
    )
    assert both[0] == f"{VIEW.name}: launching"
    assert len(both) == 2


def test_what_is_blocked_is_not_called_unsold() -> None:
    plan = replace(
        VIEW.plan,
        candidates=(),
        dearest=None,
        dropped=(
            Dropped(
                DropRule(
                    RuleKind.BLOCKED,
                    "out of stock: here; open again in 5 min",
                    Cause.CAPACITY.value,
                ),
                4,
            ),
        ),
    )
    error = Unavailable.of(replace(VIEW, state=RunState.FAILED, plan=plan, attempts=()))
    assert error.message.endswith(
        "all that fits is blocked for now: out of stock: here; open again in 5 min"
    )
    assert "%nbprov blocks" in error.hint
    nothing = Unavailable.of(
        replace(VIEW, state=RunState.FAILED, plan=replace(plan, dropped=()), attempts=())
    )
    assert "nothing on sale fits" in nothing.message


def test_one_attempt_is_not_several() -> None:
    failed = [attempt for attempt in VIEW.attempts if attempt.failure is not None]
    for count, words in ((1, "no machine in 1 attempt: "), (2, "no machine in 2 attempts: ")):
        view = replace(VIEW, state=RunState.FAILED, attempts=tuple(failed[:1] * count))
        assert words in Unavailable.of(view).message


def test_what_nobody_here_may_buy_is_not_called_unsold() -> None:
    dropped = (
        Dropped(
            DropRule(
                RuleKind.DISABLED, "aws is not set up: no adapter yet", "aws", "no adapter yet"
            ),
            4,
        ),
        Dropped(
            DropRule(
                RuleKind.DISABLED, "gcp is not set up: no adapter yet", "gcp", "no adapter yet"
            ),
            2,
        ),
    )
    plan = replace(VIEW.plan, candidates=(), dearest=None, dropped=dropped)
    error = Unavailable.of(replace(VIEW, state=RunState.FAILED, plan=plan, attempts=()))
    assert error.message.endswith("sold by aws, gcp, and none of them is set up here")
    assert error.hint == "no adapter yet; infra: local tries it for $0"


def test_the_figures_of_a_finished_launch_are_final() -> None:
    ready = replace(sample_views.ready_run(), ended=sample_views.ready_run().started + 42.0)
    later = replace(ready, now=ready.now + 9000)
    (effort,) = (line for line in run_facts(ready).summary if "attempt" in line)
    assert "42 s" in effort
    assert effort in run_facts(later).summary
    assert "42 s" in run_text(later)


def test_a_run_whose_cluster_is_stopped_does_not_say_ready() -> None:
    ready = sample_views.ready_run()
    assert ready.cluster is not None
    stopped = replace(ready, cluster=replace(ready.cluster, state=ClusterState.STOPPED))
    facts = run_facts(stopped)
    assert facts.look.words == "stopped"
    assert f"{ready.name} is stopped" in facts.summary[0]
    assert facts.hint == f"%nbprov start {ready.name}"
    assert f"next: %nbprov start {ready.name}" in run_text(stopped)
    assert "ready" not in run_text(stopped).split("\n")[0]


def test_a_run_that_was_cancelled_before_launch_took_no_time() -> None:
    never = replace(sample_views.waiting_run(), state=RunState.CANCELLED, started=0.0, attempts=())
    (line, _) = run_facts(never).summary
    assert line == "cancelled: it was not launched"


def test_reasons_that_differ_are_told_with_their_clouds() -> None:
    rules = [("aws", "no credentials"), ("vast", "no adapter yet"), ("oci", "no adapter yet")]
    dropped = tuple(
        Dropped(DropRule(RuleKind.DISABLED, f"{cloud} is not set up: {why}", cloud, why), 1)
        for cloud, why in rules
    )
    plan = replace(VIEW.plan, candidates=(), dearest=None, dropped=dropped)
    error = Unavailable.of(replace(VIEW, state=RunState.FAILED, plan=plan, attempts=()))
    assert error.hint.startswith("aws: no credentials; vast, oci: no adapter yet; infra: local")
