"""FluffyCloud for nbprov.

Nothing is imported until `make` is called: nbprov looks at every cloud's package when a notebook
starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud


def make() -> Cloud:
    """The adapter: what the entry point `nbprov.clouds` names.

    Examples
    --------
    >>> make().name
    'fluffycloud'
    """
    from .provisioner import FluffyCloud

    return FluffyCloud()
