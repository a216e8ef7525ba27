"""The way to FluffyCloud's API: where it is, and whose key is sent."""

from __future__ import annotations

from pathlib import Path

from nbprov.clouds.api_keys import KeyPlace
from nbprov.clouds.web.json_api import JsonApi

from . import errors

NO_KEY = "no FluffyCloud key found: set FLUFFYCLOUD_KEY"
KEY = KeyPlace(
    api="https://api.fluffycloud.example",
    key_variable="FLUFFYCLOUD_KEY",
    base_variable="FLUFFYCLOUD_URL",
    file=Path("~/.fluffycloud/key"),
    inside=str.strip,
    advice=NO_KEY,
)


def api() -> JsonApi:
    """Return the API with the key and the address that hold now; nothing is sent.

    A person without an account must cost nothing.
    """
    access = KEY.find()
    return JsonApi(f"{access.base}/v1", access.key, errors.failure_of)
