"""Whose RunPod account it is: the key and the address, where RunPod's own tools keep them.

Facts: the `runpod` package 1.12 (`cli/groups/config/functions.py`: `[default] api_key` of `~/.runpod/config.toml`; `api/graphql.py`:
`RUNPOD_API_BASE_URL`), runpodctl (`apikey` in the same file), docs.runpod.io (`RUNPOD_API_KEY`), read in 2026-11.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nbprov.model.causes import Cause, CloudError, Failure

from .prices import API, KEY_FILE
from .prices import _key_in as key_in

KEY_VARIABLE = "RUNPOD_API_KEY"
BASE_VARIABLE = "RUNPOD_API_BASE_URL"
NO_KEY = (
    "no RunPod API key found: set RUNPOD_API_KEY, or run `runpod config` (it writes ~/.runpod/config.toml);"
    " keys are made at console.runpod.io, Settings, API Keys"
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Access:
    """Where the service is, and with whose key.

    Attributes
    ----------
    base
        The address before `/v2` and `/graphql`, without a slash at its end.
    key
        The secret. Not in the representation.
    source
        Where the key was found, in words a person knows.
    """

    base: str
    key: str = field(repr=False)
    source: str

    @property
    def account(self) -> str:
        """A stable name for the account: REST v2 tells none, so the key's fingerprint stands for it."""
        return f"key-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"

    @property
    def masked(self) -> str:
        """The source and the key's last four characters.

        Examples
        --------
        >>> Access("https://api.runpod.io", "rpa_0123456789ABCDEF", "RUNPOD_API_KEY").masked
        'RUNPOD_API_KEY (…CDEF)'
        """
        return f"{self.source} (…{self.key[-4:]})" if len(self.key) >= 16 else self.source

    @property
    def is_usual(self) -> bool:
        """Whether the address is RunPod's own."""
        return self.base == API


def find_access(environ: Mapping[str, str] | None = None) -> Access:
    """The key and the address that hold now. Reads a file at most; no network.

    Raises
    ------
    CloudError
        `credentials` where there is no key, `bad_request` where the address would send the key in the clear.
    """
    env = os.environ if environ is None else environ
    base = (env.get(BASE_VARIABLE) or API).rstrip("/").removesuffix("/v2")
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{BASE_VARIABLE} must begin with https://: the API key travels with every request"))
    if key := env.get(KEY_VARIABLE, "").strip():
        return Access(base, key, KEY_VARIABLE)
    try:
        key = key_in(KEY_FILE.expanduser().read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError, RuntimeError):
        key = ""
    if not key:
        raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY, "no-key"))
    return Access(base, key, str(KEY_FILE))
