"""The adapter of RunPod: pods over REST v2, and prices from its two catalogues.

Start with `provisioner.py`, which implements the contract of `nbprov.clouds.base`; `pods.py` and
`pod_entrypoint.py` say what a pod is made of. Only `nbprov.model` and `nbprov.clouds` may be
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure

SET_UP = ("pip install runpod", "runpod config")
"""What a person runs in a terminal, where the cloud is not set up."""


def make() -> Cloud:
    """Make the adapter, for the key and the address of the environment or of RunPod's own settings.

    Examples
    --------
    >>> make().name
    'runpod'
    """
    from .provisioner import RunPodCloud

    return RunPodCloud()


def missing() -> Failure | None:
    """Say why RunPod cannot be used, without loading the adapter or asking RunPod.

    None if it may be usable.
    """
    from .account import KEY

    return KEY.missing()
