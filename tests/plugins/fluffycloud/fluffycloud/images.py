"""Which image a machine starts from.

FluffyCloud has one, with an ssh server and, on GPUs, the driver.
"""

from __future__ import annotations

from nbprov.model.failures import Cause, CloudError, Failure

LOGIN = ""
"""Who logs in: the account that runs the server. A real cloud names one, such as `ubuntu`."""


def checked(image: str) -> None:
    """Refuse a choice of image before anything is sent."""
    if image:
        raise CloudError(
            Failure(Cause.BAD_REQUEST, "FluffyCloud has one image: leave image_id out", "image")
        )
