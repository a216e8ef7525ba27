"""What a person who presses Launch agrees to: order of places, price, race and notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import UsageError
from nbprov.model.offers import Plan
from nbprov.planning import put_first
from nbprov.planning.preferred_places import Key
from nbprov.provisioning.supervision.guard_config import check_budget

from .context import RunContext, RunProgress
from .pricing.consent import consent_to
from .racing.race_rule import hedging_of, race_rule
from .racing.usual_times import usual_accept
from .run_builder import notes_of
from .webhook import wait_words


def set_terms(
    context: RunContext, plan: Plan, capabilities_of: Callable[[str], Capabilities]
) -> None:
    """Let Launch agree to a plan.

    Raises
    ------
    UsageError
        If the budget does not pay for the first place.
    """
    progress, failover = context.progress, context.progress.failover
    spec = progress.spec
    if plan.chosen is not None:
        check_budget(spec.guards, plan.chosen)
    consent = consent_to(plan, agreed=progress.is_agreed)
    usual = lru_cache(partial(usual_accept, context.ledger))
    rule = race_rule(spec.race, plan, usual=usual)
    failover.hedging = hedging_of(rule, spec, usual, context.spent)
    failover.queue.candidates = consent.plan.candidates
    failover.queue.ceiling = consent.hourly or None
    failover.queue.is_simulated = consent.plan.is_simulated
    waits = replace(spec, wait=replace(spec.wait, seconds=progress.wait))
    terms = (
        *([consent.words] if consent.words else []),
        *notes_of(waits, consent.plan, rule, capabilities_of),
    )
    others = (note for note in progress.notes if note not in progress.terms)
    progress.notes, progress.terms = (*terms, *others), terms
    progress.plan, progress.consent = consent.plan, consent.hourly
    progress.passed_over = consent.passed_over


def lengthen_wait(progress: RunProgress, seconds: Seconds) -> None:
    """Let the note on the wait tell of so much more."""
    before, progress.wait = progress.wait, progress.wait + seconds
    old, new = (
        wait_words(replace(progress.spec.wait, seconds=length))
        for length in (before, progress.wait)
    )
    progress.notes = tuple(new if note == old else note for note in progress.notes)


async def prefer(
    context: RunContext, keys: Sequence[Key], capabilities_of: Callable[[str], Capabilities]
) -> None:
    """Put the candidates of these keys first; none for the plan's own order.

    What Launch agrees to follows. On the engine thread.

    Raises
    ------
    UsageError
        If it was launched, the plan has lost one of them, or the budget does not pay for the first.
    """
    progress = context.progress
    if progress.state is not RunState.PLANNED:
        raise UsageError(
            f"{progress.name} was launched or cancelled: its order stays",
            hint="Launch again in its panel plans anew",
            code="run.not-planned",
        )
    ordered = put_first(progress.own_plan, keys)
    if gone := len(keys) - ordered.preferred:
        # The plan was renewed after they were chosen.
        raise UsageError(
            f"the plan has changed: {gone} of these places {'is' if gone == 1 else 'are'} gone",
            hint="choose again from the plan that is shown now",
            code="run.place-gone",
        )
    # Another time, because it is another plan to show and to save.
    set_terms(context, replace(ordered, made_at=context.clock.now()), capabilities_of)
    progress.preferred = tuple(keys)
    context.changed()
