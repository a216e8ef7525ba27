"""Places of a plan that a person puts first before Launch."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_run_changes
from test_run_changes import SECONDS, set_market

from nbprov import api
from nbprov.api.launching.stock_order import reorder
from nbprov.model.errors import UsageError
from nbprov.model.money import usd

GPU = "resources: {accelerators: A100, infra: local}"
session = test_run_changes.session


@pytest.fixture
def run(session: api.Session, nbprov_home: Path) -> api.Run:
    set_market(nbprov_home)
    made = session.provision(GPU, "dev", race=1)
    assert isinstance(made, api.Run)
    return made


def zones(run: api.Run) -> list[str]:
    return [candidate.offer.zone for candidate in run.plan.candidates]


def test_chosen_places_come_first_in_their_order_and_are_tried_so(run: api.Run) -> None:
    own = zones(run)
    assert run.prefer(7, 4) is run
    assert zones(run) == [own[7], own[4], *(z for z in own if z not in (own[7], own[4]))]
    assert [c.rank for c in run.plan.candidates] == list(range(len(own)))
    assert [c.standing for c in run.plan.candidates][:3] == [
        "your choice",
        "your choice",
        "$0.37/h less than the first",
    ]
    cluster = run.launch().wait(SECONDS)
    assert run.view().attempts[0].candidate.offer.zone == own[7]
    with pytest.raises(UsageError) as error:
        run.prefer()
    assert error.value.code == "run.not-planned"
    cluster.down().wait(SECONDS)


def test_one_call_undoes_it(run: api.Run) -> None:
    own, plan = zones(run), run.plan
    run.prefer(7, 4)
    run.prefer(0)  # of what is shown now
    assert zones(run)[0] == own[7]
    run.prefer()
    assert zones(run) == own
    assert run.plan.dearest == plan.dearest
    assert run.plan.preferred == 0
    with pytest.raises(UsageError, match="no place 10"):
        run.prefer(9)


def test_a_choice_holds_for_its_places_whatever_the_order_is_by_then(
    session: api.Session, run: api.Run
) -> None:
    plan = run.plan
    key, zone = plan.candidates[5].key, plan.candidates[5].offer.zone
    run.prefer(8)
    assert run.plan.candidates[5].key != key, "the rank is another place's now"
    run.prefer(key, key)
    assert zones(run)[0] == zone
    assert run.plan.preferred == 1
    run.prefer()
    # The rank becomes a key at once: what the engine thread does before it takes the call changes
    # nothing.
    chosen = session.engine.runs.prefer(run.driver, [5])
    session.engine.thread.call(session.engine.runs.prefer(run.driver, [8])).result(SECONDS)
    session.engine.thread.call(chosen).result(SECONDS)
    assert zones(run)[0] == zone


def test_a_place_that_is_gone_is_told_and_nothing_changes(run: api.Run) -> None:
    own = zones(run)
    with pytest.raises(UsageError, match="1 of these places is gone") as error:
        run.prefer(run.plan.candidates[3].key, ("local", "nowhere"))
    assert error.value.code == "run.place-gone"
    assert zones(run) == own
    assert run.plan.preferred == 0


def test_what_launch_agrees_to_follows_the_first_place(
    session: api.Session, nbprov_home: Path
) -> None:
    """`confirm_above` counts from the place that is tried first."""
    set_market(nbprov_home)
    made = session.provision(GPU + "\nconfirm_above: 6%", "dev", race=1)
    assert isinstance(made, api.Run)
    assert made.driver.passed_over == 3
    assert made.driver.consent < usd("3.67")
    note = next(n for n in made.view().notes if "passed over" in n)
    made.prefer(8)
    assert made.driver.passed_over == 0
    assert made.driver.consent >= usd("3.67")
    assert note not in made.view().notes
    assert made.plan.dearest is not None
    assert made.plan.dearest.hourly == usd("3.67")
    made.prefer()
    assert note in made.view().notes
    assert made.driver.consent < usd("3.67")


def test_an_answer_on_stock_keeps_the_choice(session: api.Session, run: api.Run) -> None:
    own = zones(run)
    run.prefer(5)
    consent = run.driver.consent
    made = session.planned(run.spec)
    session.engine.thread.call(reorder(run.driver, made)).result(SECONDS)
    assert zones(run) == [own[5], *(z for z in own if z != own[5])]
    assert run.driver.consent == consent
    run.prefer()
    assert zones(run) == own
