"""The error of a run that got no machine: what was tried, why it failed, what to do next."""

from __future__ import annotations

from collections import Counter

from nbprov.model.clock import short_duration
from nbprov.model.clusters import AttemptView, RunState, RunView
from nbprov.model.errors import NbprovError
from nbprov.model.failures import RULES, Cause, Failure
from nbprov.model.offers import CLOSED, RuleKind
from nbprov.planning.excerpts import excerpt

SHOWN_ATTEMPTS = 8
"""How many attempts the error itself lists; the panel and `%nbprov attempts` list all."""


class Unavailable(NbprovError):
    """No machine could be had, or the launch was cancelled.

    Attributes
    ----------
    attempts
        The attempts that failed; empty only where nothing was tried.
    said
        The message without the run's name, for places that show the name beside it.
    excerpt
        The lines of the cell with GPUs that no cloud sells, each with a caret below the name.
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
        self.attempts, self.said = attempts, message
        self.excerpt: tuple[str, ...] = ()

    @classmethod
    def _about(
        cls,
        view: RunView,
        said: str,
        *,
        hint: str = "",
        code: str | None = None,
        attempts: tuple[AttemptView, ...] = (),
    ) -> Unavailable:
        error = cls(f"{view.name}: {said}", hint=hint, code=code, attempts=attempts)
        error.said = said
        return error

    @classmethod
    def of(cls, view: RunView, stopped_by: Failure | None = None) -> Unavailable:
        """The error of a run that has ended without a cluster."""
        tried = tuple(a for a in view.attempts if a.failure is not None)
        if view.state is RunState.CANCELLED:
            return cls._about(
                view,
                "cancelled; nothing is left on the bill",
                code="provision.cancelled",
                attempts=tried,
            )
        if stopped_by is not None:
            rule = RULES[stopped_by.cause]
            return cls._about(
                view,
                stopped_by.sentence(),
                hint=rule.advice,
                code=f"provision.{stopped_by.cause.value}",
                attempts=tried,
            )
        if not tried:
            return cls._untried(view)
        causes = Counter(a.failure.cause for a in tried if a.failure is not None)
        if set(causes) == {Cause.BAD_REQUEST}:
            return cls._invalid(view, tried)
        summary = ", ".join(
            f"{RULES[cause].words} ({count})" for cause, count in causes.most_common()
        )
        passes = (
            f" and {view.waiting.passes} passes"
            if view.waiting is not None and view.waiting.passes > 1
            else ""
        )
        advice = _advice(causes, waited=view.waiting is not None)
        return cls._about(
            view,
            f"no machine in {len(tried)} attempt{'s' * (len(tried) != 1)}{passes}: {summary}",
            hint=advice,
            attempts=tried,
        )

    @classmethod
    def _invalid(cls, view: RunView, tried: tuple[AttemptView, ...]) -> Unavailable:
        """The error of a run whose every attempt was refused as invalid: it says what is wrong."""
        said = dict.fromkeys(a.failure.sentence() for a in tried if a.failure is not None)
        return cls._about(
            view,
            "; ".join(list(said)[:SHOWN_ATTEMPTS]),
            hint=RULES[Cause.BAD_REQUEST].advice,
            code=f"provision.{Cause.BAD_REQUEST.value}",
            attempts=tried,
        )

    @classmethod
    def _untried(cls, view: RunView) -> Unavailable:
        """The error of a run that asked no cloud: all that fits is blocked, or nothing fits."""
        blocked = [d.words for d in view.plan.dropped if d.rule.kind is RuleKind.BLOCKED]
        if blocked and not len(view.plan.candidates):
            said = f"all that fits is blocked for now: {'; '.join(blocked)}"
            return cls._about(
                view,
                said,
                hint="%nbprov blocks shows each block, %nbprov blocks --clear forgets them",
                code="provision.blocked",
            )
        if len(view.plan.candidates):
            lines = [
                f"{RULES[b.cause].words}: {b.words()};"
                f" open again in {short_duration(b.expires - view.now)}"
                for b in view.blocks
            ]
            said = "; ".join(["every candidate is blocked for now", *lines[:SHOWN_ATTEMPTS]])
            return cls._about(
                view,
                said,
                hint="%nbprov blocks shows each block and until when",
                code="provision.blocked",
            )
        closed = [d.rule for d in view.plan.dropped if d.rule.kind in CLOSED]
        if closed:
            sellers = ", ".join(rule.subject for rule in closed)
            is_silent = any(rule.kind is RuleKind.SILENT for rule in closed)
            lack = "can be used now" if is_silent else "is set up here"
            said = f"sold by {sellers}, and none of them {lack}"
            sellers_by_reason: dict[str, list[str]] = {}
            for rule in closed:
                sellers_by_reason.setdefault(rule.detail, []).append(rule.subject)
            why = [f"{', '.join(who)}: {reason}" for reason, who in sellers_by_reason.items()]
            if len(sellers_by_reason) == 1:  # the message has just named them
                why = [*sellers_by_reason]
            return cls._about(
                view,
                said,
                hint=f"{'; '.join(why)}; infra: local tries it for $0",
                code="provision.not-set-up",
            )
        if view.plan.silent:
            said = f"nothing is known that fits: no answer from {', '.join(view.plan.silent)}"
            return cls._about(
                view, said, hint="; ".join(view.plan.notes), code="provision.no-answer"
            )
        error = cls._about(view, "nothing on sale fits", hint="; ".join(view.plan.notes))
        source = view.plan.spec.source
        error.excerpt = tuple(
            line for word in dict.fromkeys(view.plan.unknown) for line in excerpt(source, word)
        )
        return error

    def render(self) -> list[str]:
        lines = [f"{self.message}  [{self.code}]", *self.excerpt]
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
