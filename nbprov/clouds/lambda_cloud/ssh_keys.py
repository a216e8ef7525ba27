"""The ssh key that Lambda requires with every launch: one for each owner, which admits nobody.

A launch must name exactly one registered key. A cluster's own key comes with its start script, so
the registered key is one whose private half was discarded when it was made. It is free, serves all
launches of its owner, and gives nobody access to a machine.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.base import LIST_SECONDS
from nbprov.clouds.pricing.region_fetch import expect
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError

from .api import call

KIND = "key"
MOST_NAME = 64
_lock = threading.Lock()
_known: dict[tuple[str, str, str], str] = {}


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """A registered key."""

    id: str
    name: str


def name_for(owner: str) -> str:
    """Return the name of an owner's key.

    Examples
    --------
    >>> name_for("0f3a")
    'nbprov-0f3a'
    """
    return f"nbprov-{owner}"[:MOST_NAME]


def of_owner(access: KeyAccess, owner: str, seconds: Seconds = LIST_SECONDS) -> list[RegisteredKey]:
    """Return the keys with this owner's name."""
    found = expect(
        call(access, "GET", "/ssh-keys", seconds=seconds), list, "Lambda's list of ssh keys"
    )
    keys = [expect(entry, dict, "an ssh key of Lambda's") for entry in found]
    return [
        RegisteredKey(str(entry.get("id")), name_for(owner))
        for entry in keys
        if entry.get("name") == name_for(owner)
    ]


def ensured(access: KeyAccess, owner: str, seconds: Seconds) -> str:
    """Return the name of the owner's key, registering it if necessary.

    It asks once in each process; `seconds` is for each of two requests.

    Raises
    ------
    CloudError
        If Lambda refuses it.
    """
    place = (access.base, access.account, owner)
    with _lock:
        if place not in _known:
            if not of_owner(access, owner, seconds):
                call(
                    access,
                    "POST",
                    "/ssh-keys",
                    {"name": name_for(owner), "public_key": _nobodys()},
                    seconds=seconds,
                )
            _known[place] = name_for(owner)
        return _known[place]


def forget(access: KeyAccess, owner: str) -> None:
    """Look for the key again before the next launch, because somebody may have removed it."""
    with _lock:
        _known.pop((access.base, access.account, owner), None)


def removed(access: KeyAccess, key_id: str, seconds: Seconds) -> bool:
    """Remove a key from the account.

    Returns False if a machine still uses it; one that is gone counts as removed.
    """
    try:
        call(access, "DELETE", f"/ssh-keys/{key_id}", seconds=seconds)
    except CloudError as error:
        if error.failure.code == "ssh-keys/key-in-use":
            return False
        if error.failure.code not in ("global/object-does-not-exist", "global/not-found"):
            raise
    with _lock:
        for place in [place for place in _known if place[:2] == (access.base, access.account)]:
            del _known[place]
    return True


def _nobodys() -> str:
    """Return the OpenSSH line of a key pair whose private half is discarded at once."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public: Any = Ed25519PrivateKey.generate().public_key()
    line: bytes = public.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return f"{line.decode()} nbprov-lets-nobody-in"
