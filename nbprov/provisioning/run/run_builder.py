"""Build the failover of a run, new or taken up, and the notes on it before Launch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from nbprov.clouds import registry
from nbprov.clouds.base import Capabilities
from nbprov.model.blocks import block_after
from nbprov.model.clock import Seconds
from nbprov.model.errors import NotFound
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate, Plan
from nbprov.model.spec import HealthCheck, Spec
from nbprov.provisioning.ledger import Ledger, RunRow
from nbprov.provisioning.supervision.guard_config import guard_notes, output_notes
from nbprov.provisioning.supervision.guard_enforcement import needs_kernel

from .attempt import Deadlines
from .candidate_queue import CandidateQueue
from .exclusions import exclusion_after
from .failover import Failover
from .health_check import health_words
from .launch_builder import public_ports
from .pricing.consent import budget_note, total_note
from .racing.race_rule import RaceRule, hedging_of
from .racing.usual_times import usual_accept
from .waiting.stock_wait import STOCK, StockWait
from .webhook import wait_words

FIRST_PLACES = 50
"""The first places of a plan whose clouds the notes speak of.

A launch seldom fails more often than that, and each place has to be built.
"""


def new_id() -> str:
    """A random id of 32 lower-case hex digits."""
    return secrets.token_hex(16)


def new_failover(
    ledger: Ledger,
    spec: Spec,
    plan: Plan,
    consent: Micros,
    stock_wait: StockWait,
    *,
    deadlines_of: Callable[[Candidate, HealthCheck], Deadlines],
    can_replan: bool,
    may_start: bool = True,
) -> Failover:
    """A failover over a plan that takes nothing above the agreed price.

    Parameters
    ----------
    deadlines_of
        The deadlines of a candidate's cloud, and of a spec's health check.
    can_replan
        Whether somebody can plan the spec again.
    may_start
        False where nothing new is created.
    """
    queue = CandidateQueue(
        plan.candidates,
        ledger.blocks.standing(),
        ceiling=consent or None,
        is_simulated=plan.is_simulated,
        can_replan=can_replan,
        has_alternatives=len(spec.requests) > 1,
    )
    return Failover(
        queue,
        lambda candidate: deadlines_of(candidate, spec.health),
        new_id,
        stock_wait=stock_wait,
        repeats_of=ledger.blocks.repeats,
        may_start=may_start,
    )


def resumed_failover(
    ledger: Ledger,
    row: RunRow,
    spec: Spec,
    *,
    deadlines_of: Callable[[Candidate, HealthCheck], Deadlines],
    can_replan: bool,
    least_pause: Seconds,
) -> Failover:
    """A failover for a run whose kernel died.

    It creates nothing new, unless `Failover.restore` lets it go on with a wait for stock.
    """
    stock_wait = StockWait(row.wait_deadline, least_pause)
    failover = new_failover(
        ledger,
        spec,
        Plan(spec, ()),
        row.consent,
        stock_wait,
        deadlines_of=deadlines_of,
        can_replan=can_replan,
        may_start=False,
    )
    events = ledger.events.of_run(row.run_id)
    stock_wait.passes += sum(event.kind is EventKind.PASS_BEGUN for event in events)
    launches = ledger.launches.attempts(row.run_id)
    # The plan that Launch was shown is not kept: what was tried of it tells who pays.
    failover.queue.is_simulated = bool(launches) and all(
        launch.candidate.offer.is_simulated for launch in launches
    )
    failed = [(x.candidate, x.failure) for x in launches if x.failure]
    stock_wait.causes |= {Cause.CAPACITY, *(failure.cause for _, failure in failed)}
    made = (block_after(candidate, failure, row.created) for candidate, failure in failed)
    stock_wait.own |= {block.pattern for block in made if block is not None}
    excluded = (exclusion_after(candidate, failure) for candidate, failure in failed)
    failover.queue.exclusions += [exclusion for exclusion in excluded if exclusion is not None]
    for block in failover.queue.blocks:
        if block.cause in STOCK:
            stock_wait.meet(block)
    rule = RaceRule(max(1, row.race), spec.race.hedge)
    failover.hedging = hedging_of(
        rule, spec, partial(usual_accept, ledger), lambda: ledger.prices.cost(row.run_id)
    )
    return failover


def notes_of(
    spec: Spec,
    plan: Plan,
    rule: RaceRule,
    capabilities_of: Callable[[str], Capabilities] | None = None,
) -> list[str]:
    """What the user should know before Launch of how a run buys, waits, checks and ends.

    Parameters
    ----------
    capabilities_of
        Looks up what a cloud can do; the adapters that are installed say so by default.
    """
    checked = health_words(spec.health, plan.chosen) if plan.chosen is not None else ""
    said = [
        total_note(spec.confirm_above, spec.guards),
        rule.words,
        wait_words(spec.wait),
        f"health: {checked}" if checked else "",
        budget_note(spec.guards, plan.chosen),
        *guard_notes(spec.guards),
        *output_notes(spec),
        *place_notes(spec, plan, capabilities_of or _installed),
    ]
    return [note for note in said if note]


def place_notes(
    spec: Spec, plan: Plan, capabilities_of: Callable[[str], Capabilities]
) -> Iterator[str]:
    """The notes that depend on the places of a plan.

    They may change when stock puts another place first.
    """
    if ports := _open_ports(spec, plan, capabilities_of):
        yield ports
    yield from _kernel_notes(plan, capabilities_of)


def _open_ports(spec: Spec, plan: Plan, capabilities_of: Callable[[str], Capabilities]) -> str:
    ranges = public_ports(plan.chosen.request.ports, spec.expose) if plan.chosen is not None else ()
    if not ranges or plan.chosen is None or capabilities_of(plan.chosen.offer.cloud).simulated:
        return ""
    words = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
    return f"open to the whole internet: port{'' if words.isdigit() else 's'} {words}"


def _kernel_notes(plan: Plan, capabilities_of: Callable[[str], Capabilities]) -> Iterator[str]:
    for cloud in dict.fromkeys(c.offer.cloud for c in islice(plan.candidates, FIRST_PLACES)):
        try:
            words = needs_kernel(cloud, capabilities_of(cloud))
        except NotFound:  # a plan may name a cloud that is not installed
            continue
        if words:
            yield words


def _installed(name: str) -> Capabilities:
    return registry.get(name).capabilities
