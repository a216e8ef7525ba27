"""Start scripts as secrets of the RunPod account, which the API never returns.

`POST /v2/account/secrets`, `DELETE /v2/account/secrets/{id}`. An environment variable `{{
RUNPOD_SECRET_<name> }}` is replaced when a pod boots, so the secret stays as long as the pod
(openapi.json 2.0.0 of github.com/runpod/docs, Secret, read in 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import Launch, SideObject

from .api import Api, DeadlineEvent
from .pod_entrypoint import packed
from .pods import NAME, placeholder, secret_name

SECRETS = "/v2/account/secrets"
KIND = "secret"
NO_SECRETS = ("403", "404", "405")
"""Codes of a key that may not create secrets, or of an API that has none."""
_OURS = re.compile(r"nbprov_([0-9a-f]{16})_([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a start script is kept.

    Attributes
    ----------
    value
        What the environment holds: the secret's reference, or the packed script itself. Not in the
        representation.
    id
        The id of the secret; empty if there is none, or if an earlier attempt created it.
    """

    value: str
    id: str = ""

    def __repr__(self) -> str:
        return f"Kept(id={self.id!r})"


def keep(api: Api, launch: Launch, *, seconds: Seconds) -> Kept:
    """Store a launch's start script and return how the environment refers to it.

    If the key may not create secrets, the script itself goes into the environment.

    Raises
    ------
    CloudError
        If RunPod cannot be asked.
    """
    script = packed(launch.user_data())
    name = secret_name(launch.owner, launch.token)
    body = {
        "name": name,
        "value": script,
        "description": f"start script of the nbprov cluster {launch.name}"[:200],
    }
    hidden = [value for value in (*launch.template_values.values(), script) if len(value) >= 6]
    try:
        made = api.call("POST", SECRETS, body, seconds=seconds, secrets=hidden)
    except CloudError as error:
        if error.failure.code == "409":
            # An earlier attempt of the same launch stored the same script.
            return Kept(placeholder(name))
        if error.failure.code in NO_SECRETS:
            return Kept(script)
        raise
    return Kept(placeholder(name), str(made.get("id") or "") if isinstance(made, dict) else "")


def forget(api: Api, kept: Iterable[Kept], *, seconds: Seconds) -> None:
    """Remove what a refused create had stored; if that fails, `listed` reports it later."""
    for one in kept:
        if one.id:
            try:
                delete(api, one.id, seconds=seconds)
            except CloudError:
                continue


def forget_of(api: Api, tokens: Collection[str], *, seconds: Seconds) -> None:
    """Remove the secrets of launches whose pods were ended.

    If that fails, `listed` reports them later.
    """
    if not tokens:
        return
    deadline = DeadlineEvent(seconds)
    try:
        found = _all(api, seconds=deadline.left())
    except CloudError:
        return
    forget(
        api, [Kept("", one.id) for _, one in found if one.token in tokens], seconds=deadline.left()
    )


def listed(api: Api, owner: str, *, seconds: Seconds) -> list[SideObject]:
    """Return the secrets of an owner's launches.

    Raises
    ------
    CloudError
        If they cannot be listed; `permission` if the key may not.
    """
    ours = _OURS.fullmatch(secret_name(owner, "0" * 32))
    try:
        found = _all(api, seconds=seconds)
    except CloudError as error:
        if error.failure.code in NO_SECRETS and error.failure.cause is not Cause.PERMISSION:
            return []
        raise
    return [one for mark, one in found if ours is not None and mark == ours[1]]


def delete(api: Api, secret_id: str, *, seconds: Seconds) -> None:
    """Remove one secret. Raises `CloudError` with code `404` if it is gone."""
    api.call("DELETE", f"{SECRETS}/{quote(secret_id, safe='')}", seconds=seconds)


def _all(api: Api, *, seconds: Seconds) -> list[tuple[str, SideObject]]:
    """Return the secrets with nbprov's kind of name, each with its owner."""
    named = [
        (one, _OURS.fullmatch(str(one.get("name") or "")))
        for one in api.listed(SECRETS, "secrets", seconds=seconds)
    ]
    return [
        (name[1], SideObject(NAME, "", KIND, str(one["id"]), name[2]))
        for one, name in named
        if name is not None and one.get("id")
    ]
