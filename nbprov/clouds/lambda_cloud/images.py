"""Which image a machine of Lambda's starts from.

Without a choice, Lambda takes the newest Lambda Stack (Ubuntu LTS with the NVIDIA driver, CUDA, an ssh server and the user `ubuntu`):
the one that works on every type, `arm64` included, so nothing is sent. Source: OpenAPI document 1.10.0, InstanceLaunchRequest.image.
"""

from __future__ import annotations

import re

from nbprov.model.failures import Cause, CloudError, Failure

LOGIN = "ubuntu"
"""Who logs in on all of Lambda's images."""
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAMILY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def specification(image: str) -> dict[str, str] | None:
    """What a launch says of its image: an id (32 hex digits or a UUID) or a family (`ubuntu-lts`, `lambda-stack-24-04`); None for the usual one.

    Raises
    ------
    CloudError
        `bad_request` where it is neither.

    Examples
    --------
    >>> specification("lambda-stack-24-04"), specification("43336648-096d-4cba-9aa2-f9bb7727639d"), specification("")
    ({'family': 'lambda-stack-24-04'}, {'id': '43336648-096d-4cba-9aa2-f9bb7727639d'}, None)
    """
    name = image.strip()
    if not name:
        return None
    if _ID.fullmatch(name.lower()):
        return {"id": name}
    family = name.removeprefix("family:")
    if not _FAMILY.fullmatch(family):
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                f"{image!r} is neither the id nor the family of an image of Lambda's",
                "image",
            )
        )
    return {"family": family}
