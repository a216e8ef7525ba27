"""From EC2's error codes and messages to causes of failure.

The first matching row of the table (`error_codes.py`) counts.

The codes are those of AWS's page "Error codes for the Amazon EC2 API"
(docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html) and of `StateReason`; the handlers of
Karpenter, ParallelCluster and SkyPilot also show what they mean. A row without a message is
overruled by words that say more (`nbprov/clouds/refusal_words.py`).
`tests/contract/corpus/aws.jsonl` holds real messages with the cause that each must have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from nbprov.clouds.aws.error_codes import QUARANTINE, TABLE, Line
from nbprov.clouds.refusal_words import MOST_CODE, MOST_READ, meaning_of
from nbprov.clouds.web.error_text import is_before_request
from nbprov.clouds.web.proxies import unusable_proxy, without_proxy_logins
from nbprov.clouds.word_patterns import word_pattern
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope

CREATE = "RunInstances"
"""The only call after which a lost answer may have left machines behind."""
NOT_SEEN = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
"""Codes of an id that EC2 does not know, or does not know yet: its listings lag behind creates."""

_CODES = tuple(re.compile(line.code) for line in TABLE)
_MESSAGES = tuple(word_pattern(line.message) if line.message else None for line in TABLE)
# "Client." and "Server." precede the codes of StateReason, and all codes in CloudTrail.
_SIDE = re.compile(r"^(Client|Server)\.")
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+", re.IGNORECASE)
# botocore repeats its input in messages, and the input may hold a start script with keys.
_VALUE = re.compile(r", value: .*?(?=, (?:type|valid)|$)", re.DOTALL)
_ZERO = re.compile(r"\blimit of 0\b|allows for 0 more")
_SPOT = re.compile(r"\bspot\b", re.IGNORECASE)
_NOT_ENABLED = frozenset(
    {"AuthFailure", "OptInRequired", "InvalidClientTokenId", "UnrecognizedClientException"}
)
"""Codes of a region that the account has not enabled, and of credentials that are wrong anywhere.
"""
_OPT_IN = re.compile(
    r"(af|il|me|mx)-.*|ap-east-\d|ap-south-2|ap-southeast-[3-9]|ca-west-\d|eu-central-2|"
    r"eu-south-\d"
)
"""Regions that an account must enable (docs.aws.amazon.com/global-infrastructure, read in 2026-11).
"""


def failure_of(
    code: str,
    message: str,
    *,
    status: int = 0,
    call: str = "",
    retry_after: Seconds | None = None,
    region: str = "",
) -> Failure:
    """Return the failure that an answer of AWS means.

    Parameters
    ----------
    code, message
        As AWS sends them; the code with or without `Client.` or `Server.`.
    status
        The HTTP status, or 0 if there is none. It decides if the code is not in the table.
    call
        The name of the call. After `RunInstances` a gateway's error may have left machines behind.
    region
        The region that answered, if it is known.

    Examples
    --------
    >>> failure_of("Server.InsufficientInstanceCapacity", "We do not have enough").cause.value
    'capacity'
    >>> failure_of("VcpuLimitExceeded", "... your current vCPU limit of 0 allows ...").limit_is_zero
    True
    """
    code = code[:MOST_CODE]
    words = _ENCODED.sub("", message[:MOST_READ]).strip() or code
    line = _line_of(code, words)
    cause, scope = (line.cause, line.scope) if line else (_by_status(status, code, call), None)
    if line is None and status == HTTPStatus.GONE:
        scope = Scope.ACCOUNT
    reads = not (line.sure or line.message) if line else not code.isdecimal()
    if reads and (more := meaning_of(words, cause)) is not None:
        cause, scope = more.cause, more.scope or (scope if more.cause is cause else None)
    if cause is Cause.CAPACITY and _SPOT.search(words):
        cause = Cause.SPOT
    if call == CREATE and code in NOT_SEEN:
        # Of the machines that this create is making, which EC2 does not see everywhere yet.
        cause, scope = Cause.UNKNOWN_OUTCOME, None
    if region and cause in (Cause.CREDENTIALS, Cause.BALANCE) and _is_opt_in(region, code):
        # EC2 does not know the account's keys in a region that the account has not enabled.
        cause, scope = Cause.PERMISSION, Scope.REGION
    if QUARANTINE in words:
        words = f"AWS quarantined this access key, because it became public: replace it. {words}"
    return Failure(
        cause,
        words,
        code,
        scope=scope,
        retry_after=retry_after
        if line is None or cause in (Cause.RATE_LIMIT, Cause.TRANSIENT)
        else None,
        limit_is_zero=cause is Cause.QUOTA and bool(_ZERO.search(words)),
    )


def _line_of(code: str, words: str) -> Line | None:
    plain = _SIDE.sub("", code)
    for pattern, says, line in zip(_CODES, _MESSAGES, TABLE, strict=True):
        if (pattern.fullmatch(code) or pattern.fullmatch(plain)) and (
            says is None or says.search(words)
        ):
            return line
    return None


def _is_opt_in(region: str, code: str) -> bool:
    return code in _NOT_ENABLED and _OPT_IN.fullmatch(region) is not None


def _by_status(status: int, code: str, call: str) -> Cause:
    """Return the cause for a code that is not in the table.

    A gateway's timeout (502, 504) does not tell what EC2 did with the request. botocore gives the
    status for a code where an answer has none: then it is of something on the way.
    """
    if status >= 500:
        return Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.TRANSIENT
    if status == 403 and not code.isdecimal():
        return Cause.PERMISSION
    return {429: Cause.RATE_LIMIT, 401: Cause.CREDENTIALS, HTTPStatus.GONE: Cause.BAD_REQUEST}.get(
        status, Cause.UNKNOWN
    )


def failure_of_exception(
    error: BaseException, *, call: str = "", region: str = ""
) -> Failure | None:
    """Return the failure behind an exception of boto3 or botocore, or None for any other exception.

    The exceptions are recognised by their class names, so that neither package is imported.

    Parameters
    ----------
    call
        The call that raised it. A create whose answer was lost is `unknown_outcome`; one that was
        never sent is `transient`.
    """
    if isinstance(error, CloudError):
        return error.failure
    if not type(error).__module__.startswith(("botocore", "boto3", "s3transfer")):
        return None
    response = getattr(error, "response", None)
    name = type(error).__name__
    if isinstance(response, Mapping) and "Error" in response:
        name = call or str(getattr(error, "operation_name", "") or "")
        return _of_response(response, name, region)
    if (failure := unusable_proxy(error, knows_socks=False)) is not None:
        return failure
    text = without_proxy_logins(str(error))
    if name in _UNSENT or (name == "SSLError" and is_before_request(text)):
        return Failure(Cause.TRANSIENT, text, name)
    if name.endswith("RegionError") or name in ("ParamValidationError", "InvalidConfigError"):
        return Failure(Cause.BAD_REQUEST, _VALUE.sub("", text), name)
    if any(word in name for word in _UNSIGNED):
        return Failure(Cause.CREDENTIALS, text, name)
    if name in _LOST:
        return Failure(Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.TRANSIENT, text, name)
    return Failure(
        Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.UNKNOWN, f"{name}: {text}", name
    )


_UNSIGNED = ("Credential", "Token", "SSO", "Profile", "Login", "Config", "MFA", "Metadata", "Auth")
"""Parts of the names of exceptions before a request was signed, so nothing was sent."""
_UNSENT = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"})
"""Exceptions of a connection that did not open, so nothing was sent."""
_LOST = frozenset(
    {
        "ReadTimeoutError",
        "ConnectionClosedError",
        "HTTPClientError",
        "ResponseParserError",
        "IncompleteReadError",
        "ResponseStreamingError",
        "SSLError",
    }
)
"""Exceptions of a request that was sent and whose answer was lost.

An error of TLS is one of them unless it says that the handshake failed.
"""


def _of_response(response: Mapping[str, Any], call: str, region: str) -> Failure:
    said, meta = response["Error"], response.get("ResponseMetadata", {})
    asked = str(meta.get("HTTPHeaders", {}).get("retry-after", ""))
    return failure_of(
        str(said.get("Code", "")),
        str(said.get("Message", "")),
        status=int(meta.get("HTTPStatusCode", 0) or 0),
        call=call,
        retry_after=float(asked) if asked.isdecimal() else None,
        region=region,
    )


def of_state(code: str, message: str) -> Failure:
    """Return why a machine ended, from its `StateReason`.

    A code that is temporary for a call means `unhealthy` for a machine.
    """
    found = failure_of(code, message)
    if found.cause is Cause.TRANSIENT or (
        found.cause is Cause.UNKNOWN and code.startswith("Server.")
    ):
        return replace(found, cause=Cause.UNHEALTHY, retry_after=None)
    return found
