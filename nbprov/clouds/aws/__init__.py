"""The adapter of Amazon EC2.

Start with `provisioner.py`, which implements the contract of `nbprov.clouds.base`. Beside it stand
the table of refusals (`errors.py`), stock, prices and images. `account/` holds credentials and
clients, `catalog/` what is sold, `network/` subnets and security groups, `instances/` the machines.
Only `nbprov.model` and `nbprov.clouds` may be imported; boto3 is imported when the first request to
AWS is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure

SET_UP = ('pip install "nbprov[aws]"', "aws configure")
"""What a person runs in a terminal, where the cloud is not set up."""


def make() -> Cloud:
    """Make the adapter, for the account that boto3's chain of credentials finds.

    Examples
    --------
    >>> make().name
    'aws'
    """
    from nbprov.clouds.aws.provisioner import AwsCloud

    return AwsCloud()


def missing() -> Failure | None:
    """Say why AWS cannot be used, without the adapter or the network; None if it may be usable."""
    from nbprov.clouds.aws.account import detection

    return detection.missing()
