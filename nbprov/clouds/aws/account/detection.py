"""Whether this computer has credentials for AWS, found without boto3 and without the network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from nbprov.model.failures import Cause, Failure

NEEDS = "pip install nbprov[aws]"
SIGNS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
FILES = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}


def credentials_lie_about(keys: Mapping[str, str]) -> bool:
    """Whether there are signs of AWS credentials.

    The metadata service is not asked, because everybody without an account would have to wait for
    its timeout.
    """
    if keys.get("access_key_id"):
        return True
    return any(os.environ.get(name) for name in SIGNS) or any(
        Path(os.environ.get(name) or usual).expanduser().is_file() for name, usual in FILES.items()
    )


def sdk_is_there() -> bool:
    """Whether boto3 is installed; it is not imported."""
    return find_spec("boto3") is not None


def no_credentials() -> Failure:
    """Return the failure shown to a person without AWS credentials."""
    words = (
        "no AWS credentials found: run `aws configure` (or `aws sso login`), or set "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    return Failure(Cause.CREDENTIALS, words, "NoCredentials")


def no_sdk() -> Failure:
    """Return the failure shown to a person without boto3."""
    return Failure(Cause.BAD_REQUEST, f"AWS needs boto3: {NEEDS}", "no-sdk")


def missing() -> Failure | None:
    """Return why AWS cannot be used, or None if it may be usable."""
    if not credentials_lie_about({}):
        return no_credentials()
    return None if sdk_is_there() else no_sdk()
