"""The image that a machine starts from: the newest of a family, with the NVIDIA driver for GPUs.

Sources: Google's page "Operating system details" (projects `ubuntu-os-cloud` and
`ubuntu-os-accelerator-images`, "Ubuntu accelerator optimized images") and the Deep Learning VM's
list of image families (project `deeplearning-platform-release`, `common-cu…`), both as used in
public scripts of 2026. Families come and go: several are tried in turn, and the one that exists is
remembered for a day. The health check finds a driver that is missing all the same, and `image_id`
overrides all of this.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

KEPT: Seconds = 24 * 3600.0
OLD_DEVICES = ("nvidia-tesla-k80", "nvidia-tesla-p4", "nvidia-tesla-p100", "nvidia-tesla-v100")
"""Devices older than Turing, which the open kernel modules of the accelerator images do not
support."""
ARM_FAMILIES = frozenset({"t2a", "c4a", "n4a"})
PLAIN = (
    ("ubuntu-os-cloud", "ubuntu-2204-lts"),
    ("ubuntu-os-cloud", "ubuntu-2404-lts-amd64"),
    ("debian-cloud", "debian-12"),
)
PLAIN_ARM = (
    ("ubuntu-os-cloud", "ubuntu-2204-lts-arm64"),
    ("ubuntu-os-cloud", "ubuntu-2404-lts-arm64"),
)
_DEEP = "deeplearning-platform-release"
_FAST = "ubuntu-os-accelerator-images"
WITH_DRIVER = (
    (_FAST, "ubuntu-accelerator-2204-amd64-with-nvidia-580"),
    (_FAST, "ubuntu-accelerator-2404-amd64-with-nvidia-580"),
    (_DEEP, "common-cu129-ubuntu-2204-nvidia-580"),
    (_DEEP, "common-cu128-ubuntu-2204-nvidia-570"),
)
WITH_OLD_DRIVER = (
    (_DEEP, "common-cu128-ubuntu-2204-nvidia-570"),
    (_DEEP, "common-cu129-ubuntu-2204-nvidia-580"),
)
ARM_WITH_DRIVER = ((_FAST, "ubuntu-accelerator-2404-arm64-with-nvidia-580"),)
_IMAGE = re.compile(
    r"(?:https://[^/]+/compute/v1/)?projects/(?P<project>[a-z][a-z0-9.:-]*)/(?:global/)?images/(?P<name>(?:family/)?[a-z][-a-z0-9]*)"
)


@dataclass(frozen=True, slots=True)
class ComputeImage:
    """An image and the smallest disk it fits on.

    With `installs_driver` it downloads the NVIDIA driver at its first boot if it is told to.
    """

    link: str
    disk_gb: int = 10
    installs_driver: bool = False


class Images:
    """Finds images and remembers them for a day in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], tuple[float, ComputeImage]] = {}

    def of(
        self,
        compute: Compute,
        deadline: Deadline,
        *,
        own: str,
        machine_family: str,
        has_gpu: bool,
        device: str = "",
    ) -> ComputeImage:
        """Return the image for a machine.

        Parameters
        ----------
        own
            The image that the spec names: `projects/P/global/images/I` or
            `projects/P/global/images/family/F`; empty for the default image.

        Raises
        ------
        CloudError
            `bad_request` if the image does not exist or its name is not valid.
        """
        if own and not own.startswith("docker:"):
            return self._own(compute, deadline, own)
        wanted = usual(machine_family, has_gpu=has_gpu, device=device)
        problem: CloudError | None = None
        for project, family in wanted:
            try:
                return self._family(compute, deadline, project, family)
            except CloudError as error:
                if error.failure.cause is not Cause.BAD_REQUEST:
                    raise
                problem = error
        words = problem.failure.message if problem else ""
        names = ", ".join(family for _, family in wanted)
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                (
                    f"none of Google's image families {names} exists; name an image with image_id: "
                    f"{words}"
                ),
            )
        )

    def _own(self, compute: Compute, deadline: Deadline, own: str) -> ComputeImage:
        found = _IMAGE.fullmatch(own.strip())
        if found is None:
            raise CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    (
                        f"image_id {own!r} is not a Google image: write "
                        "projects/PROJECT/global/images/[family/]NAME"
                    ),
                    "image",
                )
            )
        name = found["name"]
        if name.startswith("family/"):
            return self._family(compute, deadline, found["project"], name.removeprefix("family/"))
        return self._asked(("image", found["project"], name), compute, deadline, "get", image=name)

    def _family(
        self, compute: Compute, deadline: Deadline, project: str, family: str
    ) -> ComputeImage:
        return self._asked(
            ("family", project, family), compute, deadline, "get_from_family", family=family
        )

    def _asked(
        self,
        key: tuple[str, str, str],
        compute: Compute,
        deadline: Deadline,
        method: str,
        **fields: str,
    ) -> ComputeImage:
        with self._lock:
            when, image = self._kept.get(key, (0.0, None))
        if image is not None and 0 <= time.time() - when < KEPT:
            return image
        extra: dict[str, Any] = {"project": key[1], **fields}
        answer = compute.call("Images", method, deadline, **extra)
        image = ComputeImage(
            f"projects/{key[1]}/global/images/{answer['name']}",
            int(answer.get("diskSizeGb") or 10),
            installs_driver=key[1] == _DEEP,
        )
        with self._lock:
            self._kept[key] = (time.time(), image)
        return image


def usual(machine_family: str, *, has_gpu: bool, device: str = "") -> tuple[tuple[str, str], ...]:
    """Return the image families to try in order, each with its project.

    Examples
    --------
    >>> usual("e2", has_gpu=False)[0], usual("t2a", has_gpu=False)[0]
    (('ubuntu-os-cloud', 'ubuntu-2204-lts'), ('ubuntu-os-cloud', 'ubuntu-2204-lts-arm64'))
    """
    if has_gpu and machine_family == "a4x":
        return ARM_WITH_DRIVER
    if has_gpu:
        return WITH_OLD_DRIVER if device in OLD_DEVICES else WITH_DRIVER
    return PLAIN_ARM if machine_family in ARM_FAMILIES else PLAIN
