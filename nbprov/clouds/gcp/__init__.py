"""The adapter of Google Cloud's Compute Engine.

Start with `provisioner.py`, which implements the contract of `nbprov.clouds.base`. Beside it stand
the table of refusals (`errors.py`), stock, prices and images, and `labels.py` with names and ids.
`account/` holds credentials, clients and projects, `catalog/` what is sold, `network/` the
firewall, `instances/` the machines. Only `nbprov.model` and `nbprov.clouds` may be imported;
Google's packages are imported when a call needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure

SET_UP = ('pip install "nbprov[gcp]"', "gcloud auth application-default login")
"""What a person runs in a terminal, where the cloud is not set up."""


def make() -> Cloud:
    """Make the adapter, for the project and the application default credentials of the notebook's
    user.

    Both are looked up at every call.

    Examples
    --------
    >>> make().name
    'gcp'
    """
    from nbprov.clouds.gcp.provisioner import GcpCloud

    return GcpCloud()


def missing() -> Failure | None:
    """Say why Google Cloud cannot be used, without loading the adapter or asking Google.

    None if it may be usable.
    """
    from nbprov.clouds.gcp.account.credentials import missing as no_credentials
    from nbprov.model.failures import Cause, Failure

    words = no_credentials()
    return Failure(Cause.CREDENTIALS, words) if words else None
