"""Lambda: plain REST, one machine a launch, no stop. The folder is not called `lambda`, which is a word of Python.

Nothing is imported until `make` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure


def make() -> Cloud:
    """The adapter, for the account whose key is in `LAMBDA_API_KEY` or `~/.lambda_cloud/lambda_keys`, looked up at every call.

    Examples
    --------
    >>> make().name
    'lambda'
    """
    from .provisioner import LambdaCloud

    return LambdaCloud()


def missing() -> Failure | None:
    """Why Lambda cannot be used, found without its adapter and without asking it; None where it may be."""
    from .account import KEY

    return KEY.missing()
