"""The table from EC2's error codes and messages to causes of failure.

The first matching row counts.

The codes are those of AWS's page "Error codes for the Amazon EC2 API"
(docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html) and of `StateReason`; the handlers of
Karpenter, ParallelCluster and SkyPilot also show what they mean. Messages are read only where one
code has several meanings. `tests/contract/corpus/aws.jsonl` holds real messages with the cause that
each must have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope

CREATE = "RunInstances"
"""The only call after which a lost answer may have left machines behind."""
NOT_SEEN = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
"""Codes of an id that EC2 does not know, or does not know yet: its listings lag behind creates."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table.

    A pattern for the whole code, a pattern within the message, and the cause.

    Attributes
    ----------
    code, message
        Regular expressions; an empty message matches any.
    scope
        The scope of the block, if it differs from the default of the cause.
    """

    code: str
    cause: Cause
    message: str = ""
    scope: Scope | None = None


_TABLE = (
    # ---- out of capacity (an unfilled spot request uses the code of on-demand machines)
    Line(r"InsufficientInstanceCapacity|UnfulfillableCapacity", Cause.SPOT, r"\bspot\b"),
    Line(
        (
            r"SpotMaxPriceTooLow|SpotInstance(Termination|Shutdown)|capacity-(not-available|"
            r"oversubscribed)"
        ),
        Cause.SPOT,
    ),
    Line(
        (
            r"Insufficient(Instance|Host|ReservedInstances)?Capacity|"
            r"InsufficientCapacityOnHost"
        ),
        Cause.CAPACITY,
    ),
    Line(
        (
            r"UnfulfillableCapacity|ReservationCapacityExceeded|ZonesUnavailable|"
            r"InsufficientFreeAddressesInSubnet|InsufficientAddressCapacity"
        ),
        Cause.CAPACITY,
    ),
    # ---- limits of the account, all of them by region
    Line(
        r"PendingVerification",
        Cause.QUOTA,
        (
            r"account is currently being "
            r"verified"
        ),
        Scope.ACCOUNT,
    ),
    Line(r"PendingVerification", Cause.QUOTA),
    Line(
        (
            r"(Vcpu|Instance|Volume|MaxIOPS|MaxSpotInstanceCount|SecurityGroup|"
            r"RulesPerSecurityGroup|Vpc|InternetGateway)(Limit)?Exceeded"
        ),
        Cause.QUOTA,
    ),
    Line(
        (
            r"(MaxSpotInstanceCountExceeded|InstanceCreditSpecification\.NotSupported|"
            r"ResourceLimitExceeded)"
        ),
        Cause.QUOTA,
    ),
    # ---- not offered in this place
    Line(r"Unsupported(Operation)?", Cause.BAD_REQUEST, r"can(no|')t (be )?(stop|start)"),
    Line(r"Unsupported(Operation)?", Cause.NOT_OFFERED, r"Availability Zone|\bzone\b", Scope.ZONE),
    Line(r"Unsupported(Operation)?", Cause.NOT_OFFERED),
    Line(
        (
            r"InvalidInstanceType(\.NotFound)?|"
            r"VPCIdNotSpecified"
        ),
        Cause.NOT_OFFERED,
        "",
        Scope.REGION,
    ),
    Line(
        r"InvalidParameterValue",
        Cause.NOT_OFFERED,
        (
            r"for InstanceType\b|instance "
            r"type.{0,80}(does not exist|is not (supported|available))"
        ),
        Scope.REGION,
    ),
    Line(
        (
            r"InvalidParameter(Value|"
            r"Combination)"
        ),
        Cause.NOT_OFFERED,
        (
            r"(zone|availabilityzone).{0,40}(is not valid|does not "
            r"exist|invalid)"
        ),
        Scope.ZONE,
    ),
    # ---- credentials, permissions and billing
    Line(r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted", Cause.PERMISSION, "", Scope.REGION),
    Line(r"AuthFailure", Cause.PERMISSION, r"not authorized for images"),
    Line(r"OptInRequired", Cause.PERMISSION, r"marketplace|accept terms"),
    Line(r"Blocked|OptInRequired|AccountDisabled|SubscriptionRequired(Exception)?", Cause.BALANCE),
    Line(
        (
            r"UnauthorizedOperation|"
            r"AccessDenied(Exception)?"
        ),
        Cause.PERMISSION,
        r"service control policy",
        Scope.REGION,
    ),
    Line(
        (
            r"UnauthorizedOperation|AccessDenied(Exception)?|OperationNotPermitted|"
            r"Client\.UnauthorizedOperation"
        ),
        Cause.PERMISSION,
    ),
    Line(
        (
            r"AuthFailure|InvalidClientTokenId|UnrecognizedClient(Exception)?|"
            r"SignatureDoesNotMatch|IncompleteSignature"
        ),
        Cause.CREDENTIALS,
    ),
    Line(
        (
            r"ExpiredToken(Exception)?|RequestExpired|InvalidAccessKeyId|"
            r"MissingAuthenticationToken|InvalidToken"
        ),
        Cause.CREDENTIALS,
    ),
    # ---- rate limits and temporary faults
    Line(
        (
            r"RequestLimitExceeded|Throttling(Exception)?|RequestThrottled(Exception)?|"
            r"EC2ThrottledException|SlowDown|TooManyRequests(Exception)?"
        ),
        Cause.RATE_LIMIT,
    ),
    Line(
        (
            r"InternalError|InternalFailure|Unavailable|ServiceUnavailable|InternalServerError|"
            r"RequestTimeout|IncorrectState"
        ),
        Cause.TRANSIENT,
    ),
    Line(
        (
            r"IncorrectInstanceState|ConcurrentTagAccess|InvalidGroup\.InUse|DependencyViolation|"
            r"InvalidInstanceID\.NotFound|InvalidGroup\.NotFound|BundlingInProgress"
        ),
        Cause.TRANSIENT,
    ),
    # ---- ended machines: codes of StateReason
    Line(
        (
            r"IdempotentInstanceTerminated|InstanceInitiatedShutdown|ScheduledStop|"
            r"InstanceTerminated"
        ),
        Cause.UNHEALTHY,
    ),
    Line(r"UserInitiated(Shutdown|Hibernate)", Cause.CANCELLED),
    # ---- invalid requests
    Line(
        (
            r"InvalidAMI|InvalidAMIID\..*|InvalidAMIName\..*|InvalidSnapshot\.NotFound|"
            r"InvalidKeyPair\..*|InvalidBlockDeviceMapping"
        ),
        Cause.BAD_REQUEST,
    ),
    Line(
        (
            r"Invalid(Parameter|ParameterValue|ParameterCombination|ParameterDependency|UserData|"
            r"Input|Request|Subnet|SubnetID|Group|Permission)(\..*)?"
        ),
        Cause.BAD_REQUEST,
    ),
    Line(
        (
            r"IdempotentParameterMismatch|MissingParameter|UnknownParameter|ValidationError|"
            r"TagLimitExceeded|TagPolicyViolation|MissingInput"
        ),
        Cause.BAD_REQUEST,
    ),
    Line(
        (
            r"ParameterNotFound|InvalidInstanceID\.Malformed|InvalidVolume\..*|"
            r"UserDataTooLarge"
        ),
        Cause.BAD_REQUEST,
    ),
)
_COMPILED = tuple(
    (re.compile(line.code), re.compile(line.message, re.IGNORECASE) if line.message else None, line)
    for line in _TABLE
)
# "Client." and "Server." precede the codes of StateReason, and all codes in CloudTrail.
_SIDE = re.compile(r"^(Client|Server)\.")
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+", re.IGNORECASE)
# botocore repeats its input in messages, and the input may hold a start script with keys.
_VALUE = re.compile(r", value: .*?(?=, (?:type|valid)|$)", re.DOTALL)
_ZERO = re.compile(r"\blimit of 0\b")


def failure_of(
    code: str, message: str, *, status: int = 0, call: str = "", retry_after: Seconds | None = None
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

    Examples
    --------
    >>> failure_of("Server.InsufficientInstanceCapacity", "We do not have enough").cause.value
    'capacity'
    >>> failure_of("VcpuLimitExceeded", "... your current vCPU limit of 0 allows ...").limit_is_zero
    True
    """
    words = _ENCODED.sub("", message).strip() or code
    plain = _SIDE.sub("", code)
    for pattern, says, line in _COMPILED:
        if pattern.fullmatch(plain) and (says is None or says.search(words)):
            return Failure(
                line.cause,
                words,
                code,
                scope=line.scope,
                retry_after=retry_after
                if line.cause in (Cause.RATE_LIMIT, Cause.TRANSIENT)
                else None,
                limit_is_zero=line.cause is Cause.QUOTA and bool(_ZERO.search(words)),
            )
    return Failure(_by_status(status, call), words, code, retry_after=retry_after)


def _by_status(status: int, call: str) -> Cause:
    """Return the cause for a code that is not in the table.

    A gateway's timeout (502, 504) does not tell what EC2 did with the request.
    """
    if status >= 500:
        return Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.TRANSIENT
    return {429: Cause.RATE_LIMIT, 401: Cause.CREDENTIALS}.get(status, Cause.UNKNOWN)


def failure_of_exception(error: BaseException, *, call: str = "") -> Failure | None:
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
        return _of_response(response, call or str(getattr(error, "operation_name", "") or ""))
    text = str(error)
    if name in _UNSENT:
        return Failure(Cause.TRANSIENT, text, name)
    if any(word in name for word in ("Credential", "Token", "SSO", "Profile", "Login")):
        return Failure(Cause.CREDENTIALS, text, name)
    if name in _LOST:
        return Failure(Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.TRANSIENT, text, name)
    if name in (
        "ParamValidationError",
        "InvalidRegionError",
        "NoRegionError",
        "UnknownRegionError",
        "InvalidConfigError",
    ):
        return Failure(Cause.BAD_REQUEST, _VALUE.sub("", text), name)
    return Failure(
        Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.UNKNOWN, f"{name}: {text}", name
    )


_UNSENT = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"}
)
"""Exceptions of a connection that did not open, so nothing was sent."""
_LOST = frozenset(
    {
        "ReadTimeoutError",
        "ConnectionClosedError",
        "HTTPClientError",
        "ResponseParserError",
        "IncompleteReadError",
        "ResponseStreamingError",
    }
)
"""Exceptions of a request that was sent and whose answer was lost."""


def _of_response(response: Mapping[str, Any], call: str) -> Failure:
    said, meta = response["Error"], response.get("ResponseMetadata", {})
    asked = str(meta.get("HTTPHeaders", {}).get("retry-after", ""))
    return failure_of(
        str(said.get("Code", "")),
        str(said.get("Message", "")),
        status=int(meta.get("HTTPStatusCode", 0) or 0),
        call=call,
        retry_after=float(asked) if asked.isdecimal() else None,
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
