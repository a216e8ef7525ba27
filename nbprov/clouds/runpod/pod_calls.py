"""Calls of RunPod's API about pods: find, read, act."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError

from . import pods
from .api import Api, DeadlineEvent

PODS = "/v2/pods"
LOOK_SECONDS: Seconds = 8.0
"""How long looking for existing pods before a create may take; the create has the rest of
`CALL_SECONDS`."""
STEP_SECONDS: Seconds = 12.0
"""How long one of several steps of a call may take; RunPod answers in one or two seconds."""


def of_launch(api: Api, seconds: Seconds, *, token: str) -> list[dict[str, Any]]:
    """Return the pods of a launch that are not deleted, oldest first."""
    listed = [
        pod
        for pod in api.listed(PODS, "pods", seconds=seconds)
        if pods.token_of(pod) == token and pod.get("id")
    ]
    return sorted(
        (pod for pod in listed if not pods.is_over(pod)),
        key=lambda pod: str(pod.get("createdAt")),
    )


def pod_of(api: Api, pod_id: str, deadline: DeadlineEvent) -> dict[str, Any] | None:
    found = unless_gone(lambda: api.get(path_of(pod_id), seconds=deadline.left(STEP_SECONDS)))
    return found if isinstance(found, dict) else None


def tokens_of(api: Api, ids: Sequence[str], deadline: DeadlineEvent) -> set[str]:
    """Return the tokens of pods, with one request.

    Empty if they cannot be read now, because nothing may prevent a pod from being ended.
    """
    seconds = deadline.left(LOOK_SECONDS)
    try:
        if len(ids) == 1:
            found = [unless_gone(lambda: api.get(path_of(ids[0]), seconds=seconds)) or {}]
        else:
            found = [
                pod for pod in api.listed(PODS, "pods", seconds=seconds) if pod.get("id") in ids
            ]
    except CloudError:
        return set()
    return {pods.token_of(pod) for pod in found if isinstance(pod, dict)}


def act_on(api: Api, pod_id: str, action: str, deadline: DeadlineEvent) -> Any:
    return api.call(
        "POST",
        f"{path_of(pod_id)}/action",
        {"action": action},
        seconds=deadline.left(STEP_SECONDS),
    )


def path_of(pod_id: str) -> str:
    return f"{PODS}/{quote(pod_id, safe='')}"


def unless_gone(call: Callable[[], Any]) -> Any:
    """Return what a call returns; None if the object is gone."""
    try:
        return call()
    except CloudError as error:
        if error.failure.code == "404":
            return None
        raise
