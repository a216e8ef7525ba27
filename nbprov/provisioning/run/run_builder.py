"""From a spec and a plan to the failover of a run, new or taken up, and to what is said of it before Launch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from nbprov.clouds import registry
from nbprov.clouds.base import Capabilities
from nbprov.model.errors import NotFound
from nbprov.model.failures import Cause
from nbprov.model.money import Micros
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import RunRow
from nbprov.provisioning.supervision.guard_config import guard_notes, output_notes
from nbprov.provisioning.supervision.guard_enforcement import needs_kernel

from .candidate_queue import Itinerary
from .consent import lasts, total_note
from .failover import Failover
from .health_check import health_words
from .launch_builder import public_ports
from .race_rule import RaceRule, hedging_of
from .run_journal import PASS
from .stock_wait import STOCK, Patience
from .webhook import wait_words

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

FIRST_PLACES = 50
"""Of a plan whose clouds are spoken of: a launch that fails more often than that is rare, and each place has to be built."""


def new_id() -> str:
    """A random id of 32 lower-case hex digits."""
    return secrets.token_hex(16)


def new_failover(
    engine: Engine, spec: Spec, plan: Plan, consent: Micros, patience: Patience
) -> Failover:
    """A failover over a plan that takes nothing dearer than was agreed to."""
    ledger = engine.ledger
    return Failover(
        places=Itinerary(
            plan.candidates,
            ledger.blocks.standing(),
            ceiling=consent or None,
            can_replan=engine.replan is not None,
        ),
        deadlines_of=partial(engine.deadlines_of, health=spec.health),
        new_token=new_id,
        patience=patience,
        repeats_of=ledger.blocks.repeats,
    )


def resumed_failover(engine: Engine, row: RunRow, spec: Spec) -> Failover:
    """A failover for a run whose kernel died: it only winds up, unless the run waits for stock and may go on with that."""
    ledger, patience = engine.ledger, Patience(row.wait_deadline, engine.least_pause)
    machine = new_failover(engine, spec, Plan(spec, ()), row.consent, patience)
    machine.may_start = False
    patience.passes += sum(kind == PASS for _, kind, _ in ledger.events.of_run(row.run_id))
    patience.causes |= {
        Cause.CAPACITY,
        *(x.failure.cause for x in ledger.launches.of_run(row.run_id) if x.failure is not None),
    }
    for block in machine.places.blocks:
        if block.cause in STOCK:
            patience.meet(block)
    rule = RaceRule(max(1, row.race), spec.race.hedge)
    machine.hedging = hedging_of(rule, spec, ledger, lambda: ledger.prices.cost(row.run_id))
    return machine


def notes_of(
    spec: Spec,
    plan: Plan,
    rule: RaceRule,
    capabilities_of: Callable[[str], Capabilities] | None = None,
) -> list[str]:
    """What the person should know before Launch of how a run buys, waits, checks and ends.

    Parameters
    ----------
    capabilities_of
        What a cloud of the plan can do; by default what the adapters that are installed say.
    """
    checked = health_words(spec.health, plan.chosen) if plan.chosen is not None else ""
    said = [
        total_note(spec.confirm_above, spec.guards),
        rule.words,
        wait_words(spec.wait),
        f"health: {checked}" if checked else "",
        lasts(spec.guards, plan.chosen),
        *guard_notes(spec.guards),
        *output_notes(spec),
        *place_notes(spec, plan, capabilities_of or _installed),
    ]
    return [note for note in said if note]


def place_notes(
    spec: Spec, plan: Plan, capabilities_of: Callable[[str], Capabilities]
) -> Iterator[str]:
    """Of these notes those that the places of a plan make: they may become true when stock puts another place first."""
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
        except NotFound:  # a plan may be looked at where nothing can be launched
            continue
        if words:
            yield words


def _installed(name: str) -> Capabilities:
    return registry.get(name).capabilities
