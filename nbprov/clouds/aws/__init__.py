"""Amazon EC2.

Nothing is imported until `make` is called, and boto3 not before the first question to AWS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbprov.clouds.base import Cloud
    from nbprov.model.failures import Failure


def make() -> Cloud:
    """The adapter, for the account that boto3's own chain of credentials finds.

    Examples
    --------
    >>> make().name
    'aws'
    """
    from nbprov.clouds.aws.provisioner import AwsCloud

    return AwsCloud()


def missing() -> Failure | None:
    """Why AWS cannot be used, found without its adapter and without asking it; None where it may be."""
    from nbprov.clouds.aws.account import detection

    return detection.missing()
