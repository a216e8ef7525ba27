"""The terms of a plan: what Launch would agree to, and how the run would go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nbprov.model.errors import NbprovError
from nbprov.model.offers import Plan

from .uploads import planned_files

if TYPE_CHECKING:
    from nbprov.machines.files.output_targets import OutputFolders
    from nbprov.provisioning.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Terms:
    """What Launch would agree to.

    Attributes
    ----------
    plan
        Its `dearest` is the dearest place that may be taken: `confirm_above` leaves out the rest.
    race
        How many places may be tried at once.
    notes
        How the run would buy, race, wait, check and end, a line each.
    refusal
        Why Launch would be refused now; empty where it would not.
    """

    plan: Plan
    race: int
    notes: tuple[str, ...]
    refusal: str = ""


def terms_of(
    ledger: Ledger,
    plan: Plan,
    *,
    agreed: bool = False,
    outputs: OutputFolders | None = None,
    env: Mapping[str, str] | None = None,
) -> Terms:
    """The terms of a plan, as `provision` would have them."""
    from nbprov.provisioning.run.pricing.consent import consent_to
    from nbprov.provisioning.run.racing.race_rule import race_rule
    from nbprov.provisioning.run.racing.usual_times import usual_accept
    from nbprov.provisioning.run.run_builder import notes_of
    from nbprov.provisioning.supervision.guard_config import check_budget

    spec, refusal = plan.spec, ""
    consent = consent_to(plan, agreed=agreed)
    rule = race_rule(spec.race, plan, usual=partial(usual_accept, ledger))
    notes = (*([consent.words] if consent.words else []), *notes_of(spec, consent.plan, rule))
    if outputs is not None:
        told, refusal = planned_files(spec, env or {}, outputs)
        notes = (*notes, *told)
    if plan.chosen is not None:
        try:
            check_budget(spec.guards, plan.chosen)
        except NbprovError as error:
            refusal = f"{error.message}; {error.hint}"
    return Terms(consent.plan, rule.width, notes, refusal if plan.chosen is not None else "")
