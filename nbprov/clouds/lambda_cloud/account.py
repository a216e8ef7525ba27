"""The API key and the address of Lambda, from where its other clients keep them."""

from __future__ import annotations

from pathlib import Path

from nbprov.clouds.api_keys import KeyPlace

API = "https://cloud.lambda.ai/api/v1"
KEY_FILE = Path("~/.lambda_cloud/lambda_keys")
NO_KEY = (
    "no Lambda API key found: set LAMBDA_API_KEY, or put `api_key = …` into "
    "~/.lambda_cloud/lambda_keys (cloud.lambda.ai, API keys)"
)


def key_in(text: str) -> str:
    """Read the key from a file of `name = value` lines."""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == "api_key":
            return value.strip().strip("\"'")
    return ""


KEY = KeyPlace(API, "LAMBDA_API_KEY", "LAMBDA_API_BASE_URL", KEY_FILE, key_in, NO_KEY)
find_access = KEY.find
