"""How a run that got no machine says so: what was tried, why each failed, what to do next."""

from __future__ import annotations

from collections import Counter

from nbprov.model.clock import short_duration
from nbprov.model.clusters import AttemptView, RunState, RunView
from nbprov.model.errors import NbprovError
from nbprov.model.failures import RULES, Cause, Failure

BLOCKED = "blocked:"
DISABLED = "disabled:"
"""How the rule of what was dropped from a plan begins where a block did it."""

SHOWN_ATTEMPTS = 8
"""Lines of history in the error itself; the panel and `%nbprov attempts` have all."""


class Unavailable(NbprovError):
    """No machine was to be had, or the launch was cancelled.

    Attributes
    ----------
    attempts
        The failover history; empty only where nothing was ever tried.
    """

    code = "provision.unavailable"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str | None = None,
        attempts: tuple[AttemptView, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.attempts = attempts

    @classmethod
    def of(cls, view: RunView, stopped_by: Failure | None = None) -> Unavailable:
        """The error of a run that has ended without a cluster."""
        tried = tuple(a for a in view.attempts if a.failure is not None)
        if view.state is RunState.CANCELLED:
            return cls(
                f"{view.name}: cancelled; nothing is left on the bill",
                code="provision.cancelled",
                attempts=tried,
            )
        if stopped_by is not None:
            rule = RULES[stopped_by.cause]
            return cls(
                f"{view.name}: {stopped_by.sentence()}",
                hint=rule.advice,
                code=f"provision.{stopped_by.cause.value}",
                attempts=tried,
            )
        if not tried:
            return cls._untried(view)
        causes = Counter(a.failure.cause for a in tried if a.failure is not None)
        summary = ", ".join(
            f"{RULES[cause].words} ({count})" for cause, count in causes.most_common()
        )
        passes = (
            f" and {view.waiting.passes} passes"
            if view.waiting is not None and view.waiting.passes > 1
            else ""
        )
        advice = _advice(causes, waited=view.waiting is not None)
        return cls(
            f"{view.name}: no machine in {len(tried)} attempts{passes}: {summary}",
            hint=advice,
            attempts=tried,
        )

    @classmethod
    def _untried(cls, view: RunView) -> Unavailable:
        """Nothing was asked of a cloud: all that fits is blocked, or nothing fits."""
        blocked = [d.words for d in view.plan.dropped if d.rule.startswith(BLOCKED)]
        if blocked and not len(view.plan.candidates):
            said = f"{view.name}: all that fits is blocked for now: {'; '.join(blocked)}"
            return cls(
                said,
                hint="%nbprov blocks shows each block, %nbprov blocks --clear forgets them",
                code="provision.blocked",
            )
        if len(view.plan.candidates):
            lines = [
                f"{RULES[b.cause].words}: {b.words()}; open again in {short_duration(b.expires - view.now)}"
                for b in view.blocks
            ]
            said = "; ".join(
                [f"{view.name}: every candidate is blocked for now", *lines[:SHOWN_ATTEMPTS]]
            )
            return cls(
                said,
                hint="%nbprov blocks shows each block and until when",
                code="provision.blocked",
            )
        closed = [
            d.rule.removeprefix(DISABLED) for d in view.plan.dropped if d.rule.startswith(DISABLED)
        ]
        if closed:
            said = f"{view.name}: sold by {', '.join(closed)}, and none of them is set up here"
            why = sorted(
                {
                    d.words.partition(": ")[2]
                    for d in view.plan.dropped
                    if d.rule.startswith(DISABLED)
                }
            )
            return cls(
                said,
                hint=f"{', '.join(why)}; infra: local tries it for $0",
                code="provision.not-set-up",
            )
        return cls(f"{view.name}: nothing on sale fits", hint="; ".join(view.plan.notes))

    def render(self) -> list[str]:
        lines = [f"{self.message}  [{self.code}]"]
        for attempt in self.attempts[:SHOWN_ATTEMPTS]:
            offer = attempt.candidate.offer
            reason = (
                attempt.failure.sentence() if attempt.failure is not None else attempt.state.value
            )
            lines.append(f"  {attempt.number}. {offer.place}  {offer.instance_type}  {reason}")
        if len(self.attempts) > SHOWN_ATTEMPTS:
            lines.append(f"  … and {len(self.attempts) - SHOWN_ATTEMPTS} more: %nbprov attempts")
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return lines


def _advice(causes: Counter[Cause], *, waited: bool) -> str:
    if set(causes) <= {Cause.CAPACITY, Cause.SPOT}:
        also = "wait longer" if waited else "add wait: 2h, which tries again as blocks end"
        return f"allow more regions or GPU types (any_of), or {also}"
    return RULES[causes.most_common(1)[0][0]].advice
