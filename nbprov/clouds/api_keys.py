"""API keys of clouds whose API needs nothing else: where they are found and how they are shown."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nbprov.model.failures import Cause, CloudError, Failure

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEAST_SHOWN = 16
"""The least number of characters of a key whose last four may be shown."""


@dataclass(frozen=True, slots=True)
class KeyAccess:
    """The address of a service and the key for it.

    Attributes
    ----------
    base
        The address before the paths of the API, without a slash at its end.
    key
        The secret. Not in the representation.
    source
        Where the key was found, in words for people.
    is_usual
        The address is the service's own.
    """

    base: str
    key: str = field(repr=False)
    source: str
    is_usual: bool = True

    @property
    def account(self) -> str:
        """A stable name for the account if the API gives none: the key's fingerprint.

        Examples
        --------
        >>> KeyAccess("https://api.runpod.io", "rpa_0123456789ABCDEF", "RUNPOD_API_KEY").account
        'key-905ab471'
        """
        return f"key-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"

    @property
    def masked(self) -> str:
        """The source and the key's last four characters.

        Examples
        --------
        >>> KeyAccess("https://api.runpod.io", "rpa_0123456789ABCDEF", "RUNPOD_API_KEY").masked
        'RUNPOD_API_KEY (…CDEF)'
        """
        return f"{self.source} (…{self.key[-4:]})" if len(self.key) >= LEAST_SHOWN else self.source


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a service's own tools keep its key.

    Attributes
    ----------
    api
        The service's address.
    key_variable, base_variable
        Environment variables for the key, and for another address (a test double on loopback).
    file, inside
        The file with the key, and the function that extracts it from the file's text.
    advice
        The message for a person without a key.
    ending
        A suffix that people add to the address although the paths begin with it.
    """

    api: str
    key_variable: str
    base_variable: str
    file: Path
    inside: Callable[[str], str]
    advice: str
    ending: str = ""

    def find(self, environ: Mapping[str, str] | None = None) -> KeyAccess:
        """Return the current key and address; reads at most a file and sends no request.

        Raises
        ------
        CloudError
            `credentials` without a key, `bad_request` if the address would send the key
            unencrypted.
        """
        env = os.environ if environ is None else environ
        base = (env.get(self.base_variable) or self.api).rstrip("/").removesuffix(self.ending)
        parts = urlsplit(base)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            words = (
                f"{self.base_variable} must begin with https://, because the API key is "
                "sent with every request"
            )
            raise CloudError(Failure(Cause.BAD_REQUEST, words))
        if key := env.get(self.key_variable, "").strip():
            return KeyAccess(base, key, self.key_variable, base == self.api)
        try:
            key = self.inside(self.file.expanduser().read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError, RuntimeError):
            key = ""
        if not key:
            raise CloudError(Failure(Cause.CREDENTIALS, self.advice, "no-key"))
        return KeyAccess(base, key, str(self.file), base == self.api)

    def missing(self) -> Failure | None:
        """Say why the service cannot be asked; None if it can."""
        try:
            self.find()
        except CloudError as error:
            return error.failure
        return None
