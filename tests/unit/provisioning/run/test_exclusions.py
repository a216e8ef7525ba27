"""A refusal of a request as invalid excludes what it names, and nothing else of the launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from failover_world import World
from provisioning_samples import candidate

from nbprov.model.blocks import block_after
from nbprov.model.clusters import RunState
from nbprov.model.failures import HOUR, Cause, Failure, Scope
from nbprov.model.offers import Candidate
from nbprov.model.resources import Image, PlaceGlob, PlaceRule
from nbprov.model.spec import Spec
from nbprov.provisioning.run.exclusions import Exclusion, exclusion_after, narrowed

FIRST = candidate(0, cloud="aws", region="east", zone="east-a", kind="gpu-1")


def like(image: str = "", tier: int = 0, **changed: str) -> Candidate:
    """A candidate that differs from the first in what is named."""
    where = {"cloud": "aws", "region": "east", "zone": "east-a", "kind": "gpu-1", **changed}
    made = candidate(1, tier=tier, **where)  # type: ignore[arg-type]
    if not image:
        return made
    return replace(made, request=replace(made.request, image=Image(machine=(("", image),))))


OTHERS = {
    "another type": like(kind="gpu-2"),
    "another zone": like(zone="east-b"),
    "another region": like(region="west", zone="west-a"),
    "another image": like(image="ami-1"),
    "another alternative": like(tier=1),
    "another cloud": like(cloud="gcp"),
}


@pytest.mark.parametrize(
    ("scope", "goes_on"),
    [
        (None, {"another image", "another alternative", "another cloud"}),
        (Scope.OFFER, set(OTHERS) - {"another alternative"}),
        (Scope.ZONE, {"another zone", "another region", "another image", "another cloud"}),
        (Scope.REGION, {"another region", "another image", "another cloud"}),
        (Scope.ACCOUNT, {"another cloud"}),
    ],
)
def test_a_refusal_reaches_as_far_as_it_says(scope: Scope | None, goes_on: set[str]) -> None:
    exclusion = exclusion_after(FIRST, Failure(Cause.BAD_REQUEST, "no", scope=scope))
    assert exclusion is not None
    assert exclusion.matches(FIRST)
    assert {name for name, other in OTHERS.items() if not exclusion.matches(other)} == goes_on


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.BAD_REQUEST, Cause.UNHEALTHY}))
def test_what_may_pass_with_time_excludes_nothing(cause: Cause) -> None:
    assert exclusion_after(FIRST, Failure(cause, "no")) is None


def test_an_image_that_may_not_be_used_takes_out_its_alternative_alone() -> None:
    failure = Failure(Cause.PERMISSION, "not for you", scope=Scope.NOTHING)
    exclusion = exclusion_after(FIRST, failure)
    assert exclusion is not None
    assert {name for name, other in OTHERS.items() if not exclusion.matches(other)} == {
        "another image",
        "another alternative",
        "another cloud",
    }
    assert block_after(FIRST, failure, 0.0) is None


def test_the_launch_goes_on_with_what_is_left() -> None:
    places = [FIRST, like(zone="east-b"), like(region="west", zone="w"), like(cloud="gcp")]
    world = World(places)
    world.start()
    no_subnet = Failure(Cause.BAD_REQUEST, "no subnet in east", scope=Scope.REGION)
    world.refuse(world.busy()[0], no_subnet)
    policy = Failure(Cause.BAD_REQUEST, "a tag policy forbids it", scope=Scope.ACCOUNT)
    world.refuse(world.busy()[0], policy)
    tried = [(c.offer.cloud, c.offer.region) for c in world.tried]
    assert tried == [("aws", "east"), ("aws", "west"), ("gcp", "east")]
    world.refuse(world.busy()[0], Failure(Cause.BAD_REQUEST, "no such option"))
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


def test_an_excluded_place_stays_so_in_later_passes_and_plans() -> None:
    world = World([FIRST, like(cloud="gcp")], wait=HOUR)
    world.start()
    world.refuse(world.busy()[0], Failure(Cause.BAD_REQUEST, "no", scope=Scope.REGION))
    world.refuse(world.busy()[0], Failure(Cause.CAPACITY, "none"))
    world.machine.queue.replace_plan([FIRST, like(cloud="gcp")])
    for _ in range(3):
        assert world.wake is not None
        while not world.busy():
            world.pass_time(world.wake - world.time)
        assert [world.deeds[t].candidate.offer.cloud for t in world.busy()] == ["gcp"]
        world.refuse(world.busy()[0], Failure(Cause.CAPACITY, "none"))


@pytest.mark.parametrize(
    ("scope", "denied"),
    [
        (None, PlaceGlob("aws")),
        (Scope.REGION, PlaceGlob("aws", "east")),
        (Scope.ZONE, PlaceGlob("aws", "east", "east-a")),
    ],
)
def test_places_are_denied_to_the_alternative_that_was_refused(
    scope: Scope | None, denied: PlaceGlob
) -> None:
    image = Image(machine=(("", "ami-1"),))
    first = FIRST.request
    other = replace(first, index=first.index + 1, image=image)
    exclusion = Exclusion(FIRST, scope)
    spec = narrowed(Spec((first, other)), [exclusion])
    assert spec.requests == (replace(first, places=(PlaceRule(deny=(denied,)),)), other)


@pytest.mark.parametrize("scope", [Scope.OFFER, Scope.ACCOUNT])
def test_what_frees_no_offer_narrows_nothing(scope: Scope) -> None:
    spec = Spec((FIRST.request,))
    assert narrowed(spec, [Exclusion(FIRST, scope)]) == spec
