"""Google Cloud: Compute Engine through google-cloud-compute, and its prices.

Nothing is imported until `make` is called, and Google's packages only when a call needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud


def make() -> Cloud:
    """The adapter, for the project and the application default credentials of whoever runs the notebook, looked up at every call.

    Examples
    --------
    >>> make().name
    'gcp'
    """
    from .provisioner import GcpCloud

    return GcpCloud()
