"""The account check behind `%nbprov check`.

One request to REST v2 tests the key; one to GraphQL reads the balance, which v2 does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult

from .account import find_access
from .api import Api, DeadlineEvent
from .pods import NAME

ENOUGH: Seconds = 0.5
"""The least time that must be left for asking the balance."""
BALANCE_SECONDS: Seconds = 2.0
QUERY = "query Account { myself { id clientBalance currentSpendPerHr spendLimit } }"
"""The fields that RunPod's console and its runpodctl ask for. GraphQL is to be retired in early
2027, and no more is asked of it."""


def check(seconds: Seconds) -> CheckResult:
    """Test the key and read the account's balance. Never raises; takes at most `seconds`."""
    deadline = DeadlineEvent(seconds)
    try:
        access = find_access()
    except CloudError as error:
        return CheckResult(NAME, enabled=False, problem=error.failure)
    api = Api(access)
    try:
        api.call("GET", "/v2/pods", params={"limit": 1}, seconds=deadline.left())
    except CloudError as error:
        return CheckResult(NAME, False, access.account, access.masked, error.failure)
    told = _account(api, deadline.left(BALANCE_SECONDS)) if deadline.left() >= ENOUGH else {}
    balance = _amount(told.get("clientBalance"))
    problem = None
    if balance is not None and balance <= 0:
        problem = Failure(
            Cause.BALANCE,
            f"the account's balance is ${balance:.2f}; RunPod requires an hour's price in advance",
        )
    return CheckResult(
        NAME,
        problem is None,
        access.account,
        access.masked,
        problem,
        _details(told, access.is_usual, access.base),
    )


def _account(api: Api, seconds: Seconds) -> Mapping[str, Any]:
    try:
        answer = api.call("POST", "/graphql", {"query": QUERY}, seconds=seconds)
    except CloudError:
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    told = data.get("myself") if isinstance(data, dict) else None
    return told if isinstance(told, dict) else {}


def _details(told: Mapping[str, Any], is_usual: bool, base: str) -> tuple[str, ...]:
    balance, spend, limit = (
        _amount(told.get(name)) for name in ("clientBalance", "currentSpendPerHr", "spendLimit")
    )
    lines = [
        f"balance ${balance:,.2f}" if balance is not None else "the balance is not known",
        f"spending ${spend:,.2f} an hour now" if spend is not None else "",
        f"spend limit ${limit:,.2f} an hour" if limit is not None else "",
        f"user {told['id']}" if told.get("id") else "",
        "" if is_usual else f"asked at {base}",
    ]
    return tuple(line for line in lines if line)


def _amount(said: object) -> float | None:
    return float(said) if isinstance(said, (int, float)) and not isinstance(said, bool) else None
