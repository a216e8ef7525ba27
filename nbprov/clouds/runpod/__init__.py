"""RunPod: pods of its secure cloud over REST v2, prices from both its catalogues. Nothing is imported until `make` is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure


def make() -> Cloud:
    """The adapter, for the key and the address that its environment or RunPod's own settings name.

    Examples
    --------
    >>> make().name
    'runpod'
    """
    from .provisioner import RunPodCloud

    return RunPodCloud()


def missing() -> Failure | None:
    """Why RunPod cannot be used, found without its adapter and without asking it; None where it may be."""
    from .account import KEY

    return KEY.missing()
