"""Google Cloud: Compute Engine through google-cloud-compute, and its prices.

Nothing is imported until `make` is called, and Google's packages only when a call needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure


def make() -> Cloud:
    """The adapter, for the project and the application default credentials of whoever runs the notebook, looked up at every call.

    Examples
    --------
    >>> make().name
    'gcp'
    """
    from nbprov.clouds.gcp.provisioner import GcpCloud

    return GcpCloud()


def missing() -> Failure | None:
    """Why Google Cloud cannot be used, found without its adapter and without asking it; None where it may be."""
    from nbprov.clouds.gcp.account.credentials import missing as no_credentials
    from nbprov.model.failures import Cause, Failure

    words = no_credentials()
    return Failure(Cause.CREDENTIALS, words) if words else None
