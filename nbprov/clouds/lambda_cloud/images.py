"""The image that a machine starts from.

By default nothing is sent, and Lambda takes the newest Lambda Stack (Ubuntu LTS with the NVIDIA
driver, CUDA, an ssh server and the user `ubuntu`), which works on every type, `arm64` included.
Source: OpenAPI document 1.10.0, InstanceLaunchRequest.image.
"""

from __future__ import annotations

import re

from nbprov.model.failures import Cause, CloudError, Failure

LOGIN = "ubuntu"
"""The user of all of Lambda's images."""
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAMILY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def specification(image: str) -> dict[str, str] | None:
    """Return the image part of a launch request; None for the default image.

    An image is given by its id (32 hex digits or a UUID) or its family (`lambda-stack-24-04`).

    Raises
    ------
    CloudError
        `bad_request` if it is neither.

    Examples
    --------
    >>> specification("lambda-stack-24-04"), specification("")
    ({'family': 'lambda-stack-24-04'}, None)
    >>> specification("43336648-096d-4cba-9aa2-f9bb7727639d")
    {'id': '43336648-096d-4cba-9aa2-f9bb7727639d'}
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
                f"{image!r} is neither the id nor the family of a Lambda image",
                "image",
            )
        )
    return {"family": family}
