"""The way to Pebble's API: where it is, and whose key is sent."""

from __future__ import annotations

from pathlib import Path

from nbprov.clouds.api_keys import KeyPlace
from nbprov.clouds.web.json_api import JsonApi

from . import errors

USUAL = "https://api.pebble.example/v2"
"""Address of the API with its version, without a slash at the end. Fill it in (step 4)."""
NO_KEY = "no Pebble key found: set PEBBLE_API_KEY"
KEY = KeyPlace(
    api=USUAL,
    key_variable="PEBBLE_API_KEY",
    base_variable="PEBBLE_API_URL",
    file=Path("~/.pebble/key"),
    inside=str.strip,
    advice=NO_KEY,
)
"""Where people have their key: a variable, or a file with nothing else in it."""


def api() -> JsonApi:
    """Return the API with the key and the address that hold now; nothing is sent.

    A person without an account must cost nothing.
    """
    access = KEY.find()
    return JsonApi(access.base, access.key, errors.failure_of)
