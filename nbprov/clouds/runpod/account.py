"""The API key and the address of RunPod, from where its own tools keep them.

Facts: the `runpod` package 1.12 (`cli/groups/config/functions.py`: `[default] api_key` of
`~/.runpod/config.toml`; `api/graphql.py`: `RUNPOD_API_BASE_URL`), runpodctl (`apikey` in the same
file), docs.runpod.io (`RUNPOD_API_KEY`), read in 2026-11.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from nbprov.clouds.api_keys import KeyPlace

API = "https://api.runpod.io"
KEY_FILE = Path("~/.runpod/config.toml")
NO_KEY = (
    "no RunPod API key found: set RUNPOD_API_KEY, or run `runpod config` (it writes "
    "~/.runpod/config.toml);"
    " keys are made at console.runpod.io, Settings, API Keys"
)


def key_in(text: str) -> str:
    """Read the key from RunPod's settings.

    `api_key` of a profile (its package) or `apikey` (runpodctl).
    """
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ""
    for table in (said.get("default"), said, *said.values()):
        for name in ("api_key", "apikey", "apiKey"):
            if isinstance(table, dict) and isinstance(table.get(name), str) and table[name]:
                return str(table[name])
    return ""


KEY = KeyPlace(API, "RUNPOD_API_KEY", "RUNPOD_API_BASE_URL", KEY_FILE, key_in, NO_KEY, ending="/v2")
find_access = KEY.find
