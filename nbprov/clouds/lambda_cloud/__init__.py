"""The adapter of Lambda: plain REST, one machine for each launch, no stop.

Start with `provisioner.py`, which implements the contract of `nbprov.clouds.base`. The folder is
not called `lambda`, which is a Python keyword. Only `nbprov.model` and `nbprov.clouds` may be
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure

SET_UP = (
    "mkdir -p ~/.lambda_cloud",
    "echo 'api_key = YOUR-KEY' > ~/.lambda_cloud/lambda_keys",
)
"""What a person runs in a terminal, where the cloud is not set up."""


def make() -> Cloud:
    """Make the adapter, for the account whose key is in `LAMBDA_API_KEY` or Lambda's own file.

    Both are looked up at every call; the file is `~/.lambda_cloud/lambda_keys`.

    Examples
    --------
    >>> make().name
    'lambda'
    """
    from .provisioner import LambdaCloud

    return LambdaCloud()


def missing() -> Failure | None:
    """Say why Lambda cannot be used, without loading the adapter or asking Lambda.

    None if it may be usable.
    """
    from .account import KEY

    return KEY.missing()
