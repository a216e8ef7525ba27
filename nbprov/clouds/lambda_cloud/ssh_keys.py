"""The ssh key that Lambda wants with every launch: one an owner, which lets nobody in.

A launch must name exactly one registered key. A cluster's own key comes with its start script, so what is registered is a key whose private
half was thrown away when it was made: it costs nothing, serves all launches of its owner, and opens no machine to anyone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from nbprov.clouds.api_keys import Access
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
class Key:
    """A registered key."""

    id: str
    name: str


def name_for(owner: str) -> str:
    """The name of an owner's key.

    Examples
    --------
    >>> name_for("0f3a")
    'nbprov-0f3a'
    """
    return f"nbprov-{owner}"[:MOST_NAME]


def of_owner(access: Access, owner: str, seconds: Seconds = LIST_SECONDS) -> list[Key]:
    """The keys that bear this owner's name."""
    found = expect(
        call(access, "GET", "/ssh-keys", seconds=seconds), list, "Lambda's list of ssh keys"
    )
    keys = [expect(entry, dict, "an ssh key of Lambda's") for entry in found]
    return [
        Key(str(entry.get("id")), name_for(owner))
        for entry in keys
        if entry.get("name") == name_for(owner)
    ]


def ensured(access: Access, owner: str, seconds: Seconds) -> str:
    """The name of the owner's key, which is registered by then. Asks once a process; `seconds` is for each of two requests.

    Raises
    ------
    CloudError
        As Lambda refuses it.
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


def forget(access: Access, owner: str) -> None:
    """Look again before the next launch: somebody may have taken the key out of the account."""
    with _lock:
        _known.pop((access.base, access.account, owner), None)


def removed(access: Access, key_id: str, seconds: Seconds) -> bool:
    """Take a key out of the account; False where a machine still uses it. One that is gone counts as removed."""
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
    """An OpenSSH line of a key pair whose private half ends with this function."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public: Any = Ed25519PrivateKey.generate().public_key()
    line: bytes = public.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return f"{line.decode()} nbprov-lets-nobody-in"
