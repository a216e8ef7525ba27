"""What a cloud's real refusal names is left out of a launch, and the launch goes on elsewhere.

Each answer is read by the cloud's own table, and the failure meets a launch with one place that is
like the refused one and one that differs.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from engine_world import EngineWorld
from failover_world import World
from provisioning_samples import candidate

from nbprov.clouds.aws import errors as aws_errors
from nbprov.clouds.gcp import errors as gcp_errors
from nbprov.clouds.lambda_cloud import errors as lambda_errors
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.clouds.runpod import errors as runpod_errors
from nbprov.model.clusters import RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Launch
from nbprov.model.offers import Candidate
from nbprov.model.resources import Image


def aws(code: str, message: str) -> Failure:
    return aws_errors.failure_of(code, message, status=400, call="RunInstances")


def gcp(status: int, reason: str, message: str) -> Failure:
    body = {"error": {"message": message, "errors": [{"reason": reason}]}}
    return gcp_errors.failure_of(gcp_errors.said_of_answer(status, body), call="insert")


def runpod(status: int, detail: str) -> Failure:
    body = json.dumps({"title": "", "status": status, "detail": detail})
    return runpod_errors.failure_of(status, body, path=runpod_errors.CREATE_PATH, creates=True)


def lambda_cloud(status: int, code: str, message: str) -> Failure:
    body = json.dumps({"error": {"code": code, "message": message}})
    return lambda_errors.failure_of(status, body, path=lambda_errors.LAUNCH_PATH, creates=True)


def like(image: str = "", tier: int = 0, **changed: str) -> Candidate:
    """A candidate that differs from the first in what is named."""
    where = {"cloud": "c", "region": "east", "zone": "east-a", "kind": "gpu-1", **changed}
    made = candidate(1, tier=tier, **where)  # type: ignore[arg-type]
    if not image:
        return made
    return replace(made, request=replace(made.request, image=Image(machine=(("", image),))))


FIRST = candidate(0, cloud="c", region="east", zone="east-a", kind="gpu-1")
OTHERS = {
    "type": like(kind="gpu-2"),
    "zone": like(zone="east-b"),
    "region": like(region="west", zone="west-a"),
    "image": like(image="ami-1", kind="gpu-2"),
    "alternative": like(tier=1, kind="gpu-2"),
    "cloud": like(cloud="d"),
}
"""Places that differ in one thing. One offer is tried once, so that another image and another
alternative are of another type as well."""
IN_REGION = {"region", "image", "cloud"}
"""What is left where this region has not what this image needs."""
ALTERNATIVE = {"image", "alternative", "cloud"}
FORBIDDEN_REGION = {"type", "region", "image", "alternative", "cloud"}
"""A deny that names a region blocks the type there: it may be the type that is denied."""
NOT_THIS_TYPE = {"type", "zone", "region", "image", "alternative", "cloud"}


@pytest.mark.parametrize(
    ("failure", "goes_on"),
    [
        (aws("InvalidAMIID.NotFound", "The image id '[ami-0]' does not exist"), IN_REGION),
        (aws("VPCIdNotSpecified", "No default VPC for this user"), IN_REGION),
        (
            aws("MissingInput", "No default subnet for availability zone: 'us-east-1e'."),
            IN_REGION | {"zone"},
        ),
        (aws("TagPolicyViolation", "The tag policy does not allow the value of 'env'"), {"cloud"}),
        (
            aws("InvalidParameterCombination", "This type is not eligible for Free Tier."),
            {"cloud"},
        ),
        (
            aws(
                "InvalidParameterValue",
                "The architecture 'arm64' of the type does not match that of the specified AMI",
            ),
            NOT_THIS_TYPE,
        ),
        (
            aws("UnauthorizedOperation", "explicit deny in a service control policy"),
            FORBIDDEN_REGION,
        ),
        (
            aws("OptInRequired", "In order to use this AWS Marketplace product you need to accept"),
            ALTERNATIVE,
        ),
        (
            aws("InvalidBlockDeviceMapping", "Volume of size 8GB is smaller than snapshot 's'"),
            ALTERNATIVE,
        ),
        (
            gcp(403, "forbidden", "Required 'compute.subnetworks.use' permission for 'x'"),
            FORBIDDEN_REGION,
        ),
        (
            gcp(403, "forbidden", "Required 'compute.images.useReadOnly' permission for 'x'"),
            ALTERNATIVE,
        ),
        (
            gcp(404, "notFound", "The resource 'projects/p/global/images/x' was not found"),
            ALTERNATIVE,
        ),
        (
            gcp(412, "conditionNotMet", "Constraint constraints/gcp.resourceLocations violated"),
            FORBIDDEN_REGION,
        ),
        (
            gcp(412, "conditionNotMet", "constraints/compute.restrictMachineTypes forbids it"),
            NOT_THIS_TYPE,
        ),
        (runpod(400, "Network volume v is in US-1 and cannot be attached in EU-1."), IN_REGION),
        (runpod(404, "Template t was not found"), ALTERNATIVE),
        (runpod(403, "Your team is not permitted to deploy in region EU-1."), FORBIDDEN_REGION),
        (
            lambda_cloud(404, "global/object-does-not-exist", "Image x does not exist in us-1"),
            IN_REGION,
        ),
        (
            lambda_cloud(403, "global/forbidden", "You may not launch gpu_8x_b200 instances."),
            NOT_THIS_TYPE,
        ),
    ],
    ids=lambda value: value.message[:50] if isinstance(value, Failure) else "",
)
def test_a_launch_goes_on_where_the_refusal_does_not_reach(
    failure: Failure, goes_on: set[str]
) -> None:
    reached = {name for name, other in OTHERS.items() if _is_tried_after(failure, other)}
    assert reached == goes_on


def _is_tried_after(failure: Failure, other: Candidate) -> bool:
    world = World([FIRST, other])
    world.start()
    world.refuse(world.busy()[0], failure)
    if len(world.tried) == 1:
        assert world.finish is not None
        assert world.finish.state is RunState.FAILED
    return len(world.tried) == 2


@pytest.mark.parametrize(
    ("failure", "places"),
    [
        (aws("TagPolicyViolation", "not compliant"), [like(zone="east-b"), like(region="west")]),
        (
            gcp(404, "notFound", "The resource 'projects/p/global/images/x' was not found"),
            [like(zone="east-b"), like(region="west"), like(kind="gpu-2")],
        ),
        (aws("InvalidKeyPair.NotFound", "no such key"), [like(zone="east-b"), like(kind="gpu-2")]),
        (runpod(402, "no credit"), [like(zone="east-b"), like(region="west"), like(image="i")]),
        (
            lambda_cloud(401, "global/invalid-api-key", "API key was invalid"),
            [like(region="west"), like(tier=1, kind="gpu-2")],
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Failure) else "",
)
def test_a_launch_stops_where_the_refusal_holds_for_all_that_was_asked(
    failure: Failure, places: list[Candidate]
) -> None:
    world = World([FIRST, *places])
    world.start()
    world.refuse(world.busy()[0], failure)
    assert len(world.tried) == 1
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


PAGE = "<html><title>Access to this site is blocked</title></html>"
BLOCKED = [
    runpod_errors.failure_of(403, PAGE, path=runpod_errors.CREATE_PATH, creates=True),
    lambda_errors.failure_of(403, PAGE, path=lambda_errors.LAUNCH_PATH, creates=True),
    gcp_errors.failure_of(gcp_errors.said_of_answer(403, None, text=PAGE), call="insert"),
]


def _give_up(world: World, failure: Failure) -> None:
    """Refuse the create under way, and each time that it is sent again."""
    (token,) = world.busy()
    while world.busy() == [token]:
        world.refuse(token, failure)
        if not world.busy():
            world.pass_time(600)


@pytest.mark.parametrize("failure", BLOCKED, ids=["runpod", "lambda", "gcp"])
def test_places_of_a_cloud_behind_a_page_come_last(failure: Failure) -> None:
    places = [
        like(zone="east-b"),
        like(cloud="d"),
        like(zone="east-c"),
        like(cloud="d", zone="east-b"),
    ]
    world = World([FIRST, *places])
    world.start()
    for told in (failure, Failure(Cause.CAPACITY), Failure(Cause.CAPACITY), failure, failure):
        _give_up(world, told)
    order = [(c.offer.cloud, c.offer.zone) for c in world.tried]
    others = [("d", "east-a"), ("d", "east-b")]
    assert order == [("c", "east-a"), *others, ("c", "east-b"), ("c", "east-c")]
    assert world.finish is not None
    assert world.finish.state is RunState.FAILED


def test_a_page_that_passes_ends_no_launch() -> None:
    world = World([FIRST, like(zone="east-b")])
    world.start()
    _give_up(world, BLOCKED[0])
    world.refuse(world.busy()[0], BLOCKED[0])
    world.pass_time(60)
    world.refuse(world.busy()[0], Failure(Cause.CAPACITY))
    assert [c.offer.zone for c in world.tried] == ["east-a", "east-b"]


def test_a_passing_fault_of_one_place_changes_no_order() -> None:
    world = World([FIRST, like(zone="east-b"), like(cloud="d")])
    world.start()
    _give_up(world, Failure(Cause.TRANSIENT, "a conflict"))
    assert [c.offer.zone for c in world.tried] == ["east-a", "east-b"]


# ---------------------------------------------------------------- the engine, over `local`


def _refusing(failure: Failure, zone: str = "here-a") -> type[LocalCloud]:
    class Refusing(LocalCloud):
        """Refuses each create in one zone as another cloud does."""

        def submit(self, launch: Launch) -> CreateOperation:
            if launch.candidate.offer.zone == zone:
                raise CloudError(failure)
            return super().submit(launch)

    return Refusing


@pytest.mark.machine
@pytest.mark.parametrize(
    ("failure", "zones"),
    [
        (
            aws("UnauthorizedOperation", "explicit deny in a service control policy"),
            ["here-a", "there-a"],
        ),
        (
            aws("MissingInput", "No default subnet for availability zone: 'us-east-1e'."),
            ["here-a", "here-b"],
        ),
        (
            gcp(404, "notFound", "'projects/p/regions/r/subnetworks/s' was not found"),
            ["here-a", "there-a"],
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Failure) else "",
)
def test_a_real_run_goes_on_elsewhere(
    world: EngineWorld, failure: Failure, zones: list[str]
) -> None:
    engine = world.engine(_refusing(failure))
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert [a.candidate.offer.zone for a in driver.view().attempts] == zones


@pytest.mark.machine
def test_a_real_run_stops_where_no_place_has_the_image(world: EngineWorld) -> None:
    failure = gcp(403, "forbidden", "Required 'compute.images.useReadOnly' permission for 'x'")
    engine = world.engine(_refusing(failure))
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    assert [a.candidate.offer.zone for a in driver.view().attempts] == ["here-a"]
    assert engine.ledger.blocks.standing() == [], "other launches may use other images"
    assert world.alive() == []
