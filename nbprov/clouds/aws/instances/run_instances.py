"""The request that creates machines.

It is built from nothing but the launch and lasting facts, so that a repeat is identical to the byte
and EC2 accepts its token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbprov.clouds.aws.images import MachineImage
from nbprov.clouds.aws.instances.states import KEY_TAG, NODE_TAG
from nbprov.clouds.aws.network.subnets import Subnet
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Launch, OnShutdown
from nbprov.model.places import Market

MOST_TAGS = 50
MOST_KEY, MOST_VALUE = 128, 256
MOST_USER_DATA = 16 * 1024
"""The most bytes of a start script, before base64
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html)."""

GP3_FREE_IOPS, GP3_FREE_RATE = 3000, 125
TIERS: Mapping[str, tuple[str, int, int]] = {
    # tier: volume type, IOPS, MB/s. The free performance of gp3 (3000, 125) is the lowest tier;
    # magnetic disks cost hardly less.
    "": ("gp3", GP3_FREE_IOPS, GP3_FREE_RATE),
    "low": ("gp3", GP3_FREE_IOPS, GP3_FREE_RATE),
    "medium": ("gp3", 3000, 220),
    "high": ("gp3", 6000, 400),
    "best": ("gp3", 16000, 1000),
    "ultra": ("io2", 60000, 0),
}
_PER_GB = {"gp3": 500, "io2": 1000}
"""The most IOPS for each GB of the disk
(docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html)."""
_VOLUME_TAGS_REFUSED = re.compile(r"CreateTags.*volume", re.DOTALL)

SPOT_OPTIONS: dict[str, Any] = {
    "MarketType": "spot",
    "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
}
"""No maximum price: AWS advises against one, and nbprov has checked the spec's limits before."""


def request(
    launch: Launch,
    image: MachineImage,
    subnet: Subnet,
    groups: list[str],
    *,
    efa: bool = False,
    tag_volumes: bool = True,
) -> dict[str, Any]:
    """Build the arguments of `RunInstances`.

    Parameters
    ----------
    subnet
        Where the machines go.
    groups
        Ids of security groups, in a stable order.
    efa
        Give the machines an Elastic Fabric Adapter.
    tag_volumes
        Tag the disks too, which needs a permission of its own.

    Raises
    ------
    CloudError
        `bad_request` if the start script is too long for EC2.
    """
    offer = launch.candidate.offer
    script = launch.user_data()
    if len(script.encode()) > MOST_USER_DATA:
        words = (
            f"the start script has {len(script.encode())} bytes; EC2 accepts at most "
            f"{MOST_USER_DATA}"
        )
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "UserDataTooLarge"))
    spot = offer.market is Market.SPOT
    ends = spot or launch.on_shutdown is OnShutdown.TERMINATE
    made: dict[str, Any] = {
        "ImageId": image.id,
        "InstanceType": offer.instance_type,
        # All machines or none.
        "MinCount": launch.count,
        "MaxCount": launch.count,
        "ClientToken": launch.key,
        "InstanceInitiatedShutdownBehavior": "terminate" if ends else "stop",
        "BlockDeviceMappings": _disks(launch, image),
        # One hop only: requests from a container on the machine take two, and containers must not
        # read the start script, which holds the host key.
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpEndpoint": "enabled",
            "HttpPutResponseHopLimit": 1,
        },
        "TagSpecifications": _tag_lists(launch, spot=spot, tag_volumes=tag_volumes),
    }
    if script:
        made["UserData"] = script
    if spot:
        made["InstanceMarketOptions"] = SPOT_OPTIONS
    return made | _network(subnet, groups, efa=efa)


def _network(subnet: Subnet, groups: list[str], *, efa: bool) -> dict[str, Any]:
    """Build the arguments that say where in the network the machines go."""
    if subnet.any_will_do and not efa:
        return {"SecurityGroupIds": groups}
    if subnet.gives_address and not efa:
        return {"SubnetId": subnet.id, "SecurityGroupIds": groups}
    card: dict[str, Any] = {
        "DeviceIndex": 0,
        "SubnetId": subnet.id,
        "Groups": groups,
        "AssociatePublicIpAddress": True,
    }
    card |= {"InterfaceType": "efa"} if efa else {}
    return {"NetworkInterfaces": [card | {"DeleteOnTermination": True}]}


def _disks(launch: Launch, image: MachineImage) -> list[dict[str, Any]]:
    """Describe the boot disk, and have the image's other disks deleted with the machine."""
    return [
        {"DeviceName": image.device, "Ebs": disk(launch, image)},
        *({"DeviceName": other, "Ebs": {"DeleteOnTermination": True}} for other in image.kept),
    ]


def disk(launch: Launch, image: MachineImage) -> dict[str, Any]:
    """Describe the boot disk.

    At least the image's size, and large enough for the speed of its tier.
    """
    kind, iops, rate = TIERS.get(launch.disk_tier, TIERS[""])
    size = max(launch.disk_gb, image.least_gb, 1)
    if kind == "io2":
        size = max(size, -(-iops // _PER_GB[kind]))
    iops = min(iops, max(GP3_FREE_IOPS, size * _PER_GB[kind]))
    made: dict[str, Any] = {"VolumeType": kind, "VolumeSize": size, "DeleteOnTermination": True}
    if kind == "io2" or iops > GP3_FREE_IOPS:
        made["Iops"] = iops
    if kind == "gp3" and rate > GP3_FREE_RATE:
        made["Throughput"] = rate
    return made


def tags(launch: Launch) -> list[dict[str, str]]:
    """Return the tags of a launch as EC2 accepts them.

    Ours first, then the spec's labels as far as they fit.

    EC2 refuses keys that begin with `aws:`, which get `x-` in front, and keys and values that are
    too long, which are cut.
    """
    ours = {key: value for key, value in launch.tags.items() if key.startswith("nbprov-")}
    ours |= {
        "nbprov-owner": launch.owner,
        "nbprov-token": launch.token,
        "nbprov-run": launch.run_id,
        "nbprov-name": launch.name,
    }
    if launch.part:
        # EC2 numbers the machines of one create from 0, so the node's number is a tag. The create
        # is found by its key, because the cluster's other machines bear the same token.
        ours |= {NODE_TAG: str(launch.numbers[0]), KEY_TAG: launch.key}
    theirs = {key: value for key, value in launch.tags.items() if key not in ours}
    clean: dict[str, str] = {}
    for key, value in {"Name": launch.name, **ours, **theirs}.items():
        clean.setdefault(
            cleaned(key, MOST_KEY), "".join(c for c in value if c.isprintable())[:MOST_VALUE]
        )
    if "Name" in launch.tags:
        clean["Name"] = "".join(c for c in launch.tags["Name"] if c.isprintable())[:MOST_VALUE]
    return [{"Key": key, "Value": value} for key, value in list(clean.items())[:MOST_TAGS]]


def cleaned(key: str, most: int) -> str:
    """Return a tag key that EC2 accepts.

    Examples
    --------
    >>> cleaned("aws:team", 128), cleaned("team", 3)
    ('x-aws:team', 'tea')
    """
    plain = "".join(c for c in key if c.isprintable()).strip() or "x"
    return (f"x-{plain}" if plain.lower().startswith("aws:") else plain)[:most]


def wants_no_volume_tags(failure: Failure) -> bool:
    """Whether a refusal may concern only the disks' tags: it names them, or names nothing."""
    if failure.code != "UnauthorizedOperation":
        return False
    return (
        bool(_VOLUME_TAGS_REFUSED.search(failure.message))
        or "not authorized to perform:" not in failure.message
    )


def _tag_lists(launch: Launch, *, spot: bool, tag_volumes: bool) -> list[dict[str, Any]]:
    kinds = [
        "instance",
        *(["volume"] if tag_volumes else []),
        *(["spot-instances-request"] if spot else []),
    ]
    return [{"ResourceType": kind, "Tags": tags(launch)} for kind in kinds]
