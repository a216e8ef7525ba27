"""The `local` cloud: a detached daemon on this computer that starts and ends real sshd processes as its machines.

Nothing is imported until `make` is called; prices are simulated and nobody pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud


def make() -> Cloud:
    """The adapter, for the state directory that `NBPROV_LOCAL_DIR` names or the one in nbprov's home.

    Examples
    --------
    >>> make().name
    'local'
    """
    from .provisioner import LocalCloud

    return LocalCloud()
