"""The machine image that a machine starts from if the spec names none.

AWS's public SSM parameters name it for each region; the answer is cached for a day. Sources: the
paths of Canonical (ubuntu.com/aws docs, "Find Ubuntu images on AWS"), of AWS's Deep Learning AMIs
(docs.aws.amazon.com/dlami/latest/devguide, "AWS Deep Learning Base GPU AMI (Ubuntu 22.04)" and the
ARM64 one) and of Neuron (awsdocs-neuron, "Neuron DLAMI User Guide", SSM parameters). All of these
images have sshd and cloud-init, and the user `ubuntu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbprov.clouds.aws.account import fact_cache
from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.clouds.aws.catalog.gpu_families import FAMILIES, family_of
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.offers import Offer

UBUNTU = (
    "/aws/service/canonical/ubuntu/server/{release}/stable/current/{arch}/hvm/ebs-{disk}/ami-id"
)
GPU = "/aws/service/deeplearning/ami/{arch}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
NEURON = "/aws/service/neuron/dlami/base/ubuntu-22.04/latest/image_id"
NAMES = {
    # The same images by owner and name, for users who may not read SSM parameters: the policy
    # AmazonEC2FullAccess does not include that permission.
    UBUNTU.split("{")[0]: (
        "099720109477",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{deb}-server-*",
    ),
    GPU.split("{")[0]: (
        "amazon",
        "Deep Learning {arm}Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) ????????",
    ),
    NEURON: ("amazon", "Deep Learning Base Neuron AMI (Ubuntu 22.04) ????????"),
}
NO_DRIVER = frozenset({"p2", "p3", "p3dn", "g3", "g3s", "g4ad", "dl1"})
"""Families that the open NVIDIA driver of the GPU image does not support: older than Turing, or not
made by NVIDIA. The health check reports the missing driver."""
ARM = frozenset({"g5g"})
"""Arm families whose name does not end in Graviton's `g`, `gd` or `gn`."""
FRESH: Seconds = 60.0
MARKS = ("resolve:ssm:", "ssm:")


@dataclass(frozen=True, slots=True)
class MachineImage:
    """A machine image in one region.

    Attributes
    ----------
    device
        The device name of its boot disk, which a block device mapping has to repeat.
    least_gb
        The size of its snapshot; EC2 refuses a smaller boot disk.
    kept
        The device names of its other disks that would outlive the machine.
    """

    id: str
    device: str
    least_gb: int
    kept: tuple[str, ...] = ()


def arch_of(offer: Offer) -> str:
    """Return `x86_64` or `arm64`, from the catalogue or from the name of the family (`m7g`,
    `c7gn`).

    Examples
    --------
    >>> from nbprov.model.places import Market
    >>> def of(name): return Offer("aws", "us-east-1", "", name, "", 0, 2, 8, Market.ON_DEMAND, 1)
    >>> arch_of(of("m7g.large")), arch_of(of("g5.xlarge")), arch_of(of("c7gn.large"))
    ('arm64', 'x86_64', 'arm64')
    >>> arch_of(of("m6i.large"))
    'x86_64'
    """
    if offer.arch in ("arm64", "x86_64"):
        return offer.arch
    family = family_of(offer.instance_type)
    digits = family.lstrip("abcdefghijklmnopqrstuvwxyz")
    return (
        "arm64"
        if family in ARM or (digits[1:2] == "g" and not family.startswith("p"))
        else "x86_64"
    )


def parameters_for(offer: Offer) -> tuple[str, ...]:
    """Return the public SSM parameters to read, best first.

    Later ones are for regions that lack it.
    """
    arch = arch_of(offer)
    family = family_of(offer.instance_type)
    deb = "amd64" if arch == "x86_64" else arch
    plain = (
        UBUNTU.format(release="24.04", arch=deb, disk="gp3"),
        UBUNTU.format(release="22.04", arch=deb, disk="gp2"),
    )
    if family in NO_DRIVER:
        return plain
    if family.startswith(("trn", "inf")):
        return (NEURON, *plain)
    if offer.accelerator or family in FAMILIES:
        return (GPU.format(arch=arch),)
    return plain


def find(session: AwsAccount, region: str, offer: Offer, wanted: str) -> MachineImage:
    """Return the image of a launch in a region.

    Parameters
    ----------
    wanted
        `ami-…`, `ssm:/path/of/a/parameter`, or empty for the default image.

    Raises
    ------
    CloudError
        `bad_request` if the named image does not exist; `not_offered` if the region has no image
        for this type; otherwise whatever the calls raise.
    """
    if wanted.startswith("ami-"):
        return _described(session, region, wanted)
    mark = next((m for m in MARKS if wanted.startswith(m)), "")
    if wanted and not mark:
        words = (
            f"image_id {wanted!r} is not an AWS image: write ami-…, or ssm:/… for a public "
            "parameter that holds one"
        )
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "bad-image"))
    names = (wanted[len(mark) :],) if wanted else parameters_for(offer)
    key = f"{region} {names[0]}"
    remembered = fact_cache.read("images", key)
    found = (
        str(remembered)
        if remembered
        else _looked_up(session, region, names, asked_for=bool(wanted))
    )
    image = _described(session, region, found)
    if not remembered:
        fact_cache.write("images", {key: found})
    return image


def forget(region: str, offer: Offer) -> bool:
    """Drop the cached default image of a launch, so that the next launch looks it up again.

    Returns False if it was looked up within the last minute and so is current.
    """
    key = f"{region} {parameters_for(offer)[0]}"
    if (
        fact_cache.read("images", key) is None
        or fact_cache.read("images", key, newer_than=FRESH) is not None
    ):
        return False
    fact_cache.drop("images", key)
    return True


def _looked_up(session: AwsAccount, region: str, names: tuple[str, ...], *, asked_for: bool) -> str:
    try:
        answer = session.call(region, "GetParameters", service="ssm", Names=list(names))
    except CloudError as error:
        if error.failure.cause is not Cause.PERMISSION or asked_for:
            raise
        return _by_name(session, region, names[0], error)
    values = {p["Name"]: p["Value"] for p in answer["Parameters"]}
    found = next((values[name] for name in names if values.get(name, "").startswith("ami-")), "")
    if not found:
        cause = Cause.BAD_REQUEST if asked_for else Cause.NOT_OFFERED
        words = f"{region} has no image under {names[0]}; name one with image_id"
        raise CloudError(Failure(cause, words, "ParameterNotFound", Scope.REGION))
    return found


def _by_name(session: AwsAccount, region: str, parameter: str, refused: CloudError) -> str:
    """Find the newest image that the parameter would name, by its owner and its name."""
    owner, pattern = next(found for start, found in NAMES.items() if parameter.startswith(start))
    arm = "/arm64/" in parameter
    name = pattern.format(deb="arm64" if arm else "amd64", arm="ARM64 " if arm else "")
    filters = [{"Name": "name", "Values": [name]}, {"Name": "state", "Values": ["available"]}]
    rows = [
        i
        for page in session.pages(region, "DescribeImages", Owners=[owner], Filters=filters)
        for i in page["Images"]
    ]
    newest = max(
        rows, key=lambda i: (str(i.get("CreationDate", "")), str(i["ImageId"])), default=None
    )
    if newest is None:
        raise refused
    return str(newest["ImageId"])


def _described(session: AwsAccount, region: str, image: str) -> MachineImage:
    key = f"{region} {image}"
    remembered = fact_cache.read("image-facts", key)
    if isinstance(remembered, list) and len(remembered) == 3:
        return MachineImage(
            image, str(remembered[0]), int(remembered[1]), tuple(map(str, remembered[2]))
        )
    found: list[dict[str, Any]] = session.call(region, "DescribeImages", ImageIds=[image])["Images"]
    if not found:
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                f"{region} has no image {image} that this account may use",
                "InvalidAMIID.NotFound",
            )
        )
    device = str(found[0].get("RootDeviceName") or "/dev/sda1")
    disks = {
        str(d.get("DeviceName")): d["Ebs"]
        for d in found[0].get("BlockDeviceMappings", [])
        if d.get("Ebs")
    }
    least = int(disks.get(device, {}).get("VolumeSize") or 0)
    others = sorted(
        name
        for name, told in disks.items()
        if name != device and not told.get("DeleteOnTermination")
    )
    fact_cache.write("image-facts", {key: [device, least, others]})
    return MachineImage(image, device, least, tuple(others))
