"""What a run never tries again, whatever becomes of stock. No other launch is concerned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nbprov.model.failures import Cause, Failure, Scope
from nbprov.model.offers import Candidate
from nbprov.model.resources import PlaceGlob, PlaceRule, Request
from nbprov.model.spec import Spec


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Candidates like one that was refused for good.

    Attributes
    ----------
    like
        The candidate that was refused.
    scope
        How far the refusal reaches: its instance type in that zone, the zone, the region (each for
        the same image), or the whole cloud. None is this alternative of the spec on that cloud.
    """

    like: Candidate
    scope: Scope | None = None

    @property
    def frees_offers(self) -> bool:
        """Whether the offers that it excludes may serve another alternative of the spec."""
        return self.scope in (None, Scope.REGION, Scope.ZONE)

    def narrowed(self, request: Request) -> Request:
        """Return an alternative without the places that are excluded for it."""
        like = self.like.request
        if self.scope is None:
            is_meant = request.index == like.index
        else:
            is_meant = request.image == like.image
        if not self.frees_offers or not is_meant:
            return request
        place = self.like.offer.place
        denied = PlaceGlob(
            place.cloud,
            place.region if self.scope is not None else "",
            place.zone if self.scope is Scope.ZONE else "",
        )
        return replace(request, places=(*request.places, PlaceRule(deny=(denied,))))

    def matches(self, candidate: Candidate) -> bool:
        """Whether a candidate is excluded."""
        ours, theirs = self.like.offer, candidate.offer
        if ours.cloud != theirs.cloud:
            return False
        if self.scope is Scope.ACCOUNT:
            return True
        if self.scope is None:
            return self.like.request == candidate.request
        return (
            self.like.request.image == candidate.request.image
            and ours.region == theirs.region
            and (self.scope is Scope.REGION or ours.zone == theirs.zone)
            and (self.scope is not Scope.OFFER or ours.instance_type == theirs.instance_type)
        )


def narrowed(spec: Spec, exclusions: Iterable[Exclusion]) -> Spec:
    """Return a spec whose alternatives have no excluded places, so that others may take them."""
    requests = spec.requests
    for exclusion in exclusions:
        requests = tuple(exclusion.narrowed(request) for request in requests)
    return replace(spec, requests=requests)


def exclusion_after(candidate: Candidate, failure: Failure) -> Exclusion | None:
    """What a failure excludes for the rest of its run; None for what may pass with time.

    A request that was refused as invalid excludes what the refusal names. A type that was bought
    and did not work is not bought again in that zone. An image that may not be used blocks nothing,
    but no other place would take this alternative either.
    """
    if failure.cause is Cause.UNHEALTHY:
        return Exclusion(candidate, Scope.OFFER)
    if failure.cause is Cause.PERMISSION and failure.scope is Scope.NOTHING:
        return Exclusion(candidate)
    if failure.cause is Cause.BAD_REQUEST and failure.scope is not Scope.NOTHING:
        return Exclusion(candidate, failure.scope)
    return None
