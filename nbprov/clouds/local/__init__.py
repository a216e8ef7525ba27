"""The `local` cloud: a daemon on this computer whose machines are real sshd processes.

Start with `provisioner.py`, which implements the contract of `nbprov.clouds.base` by calls to the
daemon (`client.py`, `rpc.py`); `daemon/` holds all that runs there. Prices are simulated and nobody
pays. Only `nbprov.model` and `nbprov.clouds` may be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud


def make() -> Cloud:
    """Make the adapter, for the state directory in `NBPROV_LOCAL_DIR` or the one in nbprov's home.

    Examples
    --------
    >>> make().name
    'local'
    """
    from .provisioner import LocalCloud

    return LocalCloud()
