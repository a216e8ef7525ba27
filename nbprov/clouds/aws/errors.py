"""From what EC2 says when it refuses to the causes of failure: one table, read from the top; the first line that fits counts.

The codes are those of AWS's page "Error codes for the Amazon EC2 API" (docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html) and of
`StateReason`; which code means what is also told by the handlers of Karpenter, ParallelCluster and SkyPilot. Messages are only looked at where
one code has several meanings. `tests/contract/corpus/aws.jsonl` holds real messages with what each has to become.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope

CREATE = "RunInstances"
"""The one call after which a lost answer may have left machines behind."""
NOT_SEEN = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
"""The id is not known, or not yet: EC2's listings lag behind its creates."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: codes as a pattern over the whole code, a pattern that occurs in the message, and what follows.

    Attributes
    ----------
    code, message
        Regular expressions; an empty message fits any.
    scope
        Where the block reaches another way than the cause's rule says.
    """

    code: str
    cause: Cause
    message: str = ""
    scope: Scope | None = None


_TABLE = (
    # ---- no machine of this kind left. A spot request that cannot be filled says so under the code of on-demand machines.
    Line(r"InsufficientInstanceCapacity|UnfulfillableCapacity", Cause.SPOT, r"\bspot\b"),
    Line(r"SpotMaxPriceTooLow|SpotInstance(Termination|Shutdown)|capacity-(not-available|oversubscribed)", Cause.SPOT),
    Line(r"Insufficient(Instance|Host|ReservedInstances)?Capacity|InsufficientCapacityOnHost", Cause.CAPACITY),
    Line(r"UnfulfillableCapacity|ReservationCapacityExceeded|ZonesUnavailable|InsufficientFreeAddressesInSubnet|InsufficientAddressCapacity", Cause.CAPACITY),
    # ---- the account's limits, all of them by region
    Line(r"PendingVerification", Cause.QUOTA, r"account is currently being verified", Scope.ACCOUNT),
    Line(r"PendingVerification", Cause.QUOTA),
    Line(r"(Vcpu|Instance|Volume|MaxIOPS|MaxSpotInstanceCount|SecurityGroup|RulesPerSecurityGroup|Vpc|InternetGateway)(Limit)?Exceeded", Cause.QUOTA),
    Line(r"(MaxSpotInstanceCountExceeded|InstanceCreditSpecification\.NotSupported|ResourceLimitExceeded)", Cause.QUOTA),
    # ---- not sold there
    Line(r"Unsupported(Operation)?", Cause.BAD_REQUEST, r"can(no|')t (be )?(stop|start)"),
    Line(r"Unsupported(Operation)?", Cause.NOT_OFFERED, r"Availability Zone|\bzone\b", Scope.ZONE),
    Line(r"Unsupported(Operation)?", Cause.NOT_OFFERED),
    Line(r"InvalidInstanceType(\.NotFound)?|VPCIdNotSpecified", Cause.NOT_OFFERED, "", Scope.REGION),
    Line(r"InvalidParameterValue", Cause.NOT_OFFERED, r"for InstanceType\b|instance type.{0,80}(does not exist|is not (supported|available))", Scope.REGION),
    Line(r"InvalidParameter(Value|Combination)", Cause.NOT_OFFERED, r"(zone|availabilityzone).{0,40}(is not valid|does not exist|invalid)", Scope.ZONE),
    # ---- who asks
    Line(r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted", Cause.PERMISSION, "", Scope.REGION),
    Line(r"AuthFailure", Cause.PERMISSION, r"not authorized for images"),
    Line(r"OptInRequired", Cause.PERMISSION, r"marketplace|accept terms"),
    Line(r"Blocked|OptInRequired|AccountDisabled|SubscriptionRequired(Exception)?", Cause.BALANCE),
    Line(r"UnauthorizedOperation|AccessDenied(Exception)?", Cause.PERMISSION, r"service control policy", Scope.REGION),
    Line(r"UnauthorizedOperation|AccessDenied(Exception)?|OperationNotPermitted|Client\.UnauthorizedOperation", Cause.PERMISSION),
    Line(r"AuthFailure|InvalidClientTokenId|UnrecognizedClient(Exception)?|SignatureDoesNotMatch|IncompleteSignature", Cause.CREDENTIALS),
    Line(r"ExpiredToken(Exception)?|RequestExpired|InvalidAccessKeyId|MissingAuthenticationToken|InvalidToken", Cause.CREDENTIALS),
    # ---- too fast, or a passing fault
    Line(r"RequestLimitExceeded|Throttling(Exception)?|RequestThrottled(Exception)?|EC2ThrottledException|SlowDown|TooManyRequests(Exception)?", Cause.RATE_LIMIT),
    Line(r"InternalError|InternalFailure|Unavailable|ServiceUnavailable|InternalServerError|RequestTimeout|IncorrectState", Cause.TRANSIENT),
    Line(r"IncorrectInstanceState|ConcurrentTagAccess|InvalidGroup\.InUse|DependencyViolation|InvalidInstanceID\.NotFound|InvalidGroup\.NotFound|BundlingInProgress", Cause.TRANSIENT),
    # ---- a machine that ended: codes of StateReason
    Line(r"IdempotentInstanceTerminated|InstanceInitiatedShutdown|ScheduledStop|InstanceTerminated", Cause.UNHEALTHY),
    Line(r"UserInitiated(Shutdown|Hibernate)", Cause.CANCELLED),
    # ---- what was asked for cannot be
    Line(r"InvalidAMI|InvalidAMIID\..*|InvalidAMIName\..*|InvalidSnapshot\.NotFound|InvalidKeyPair\..*|InvalidBlockDeviceMapping", Cause.BAD_REQUEST),
    Line(r"Invalid(Parameter|ParameterValue|ParameterCombination|ParameterDependency|UserData|Input|Request|Subnet|SubnetID|Group|Permission)(\..*)?", Cause.BAD_REQUEST),
    Line(r"IdempotentParameterMismatch|MissingParameter|UnknownParameter|ValidationError|TagLimitExceeded|TagPolicyViolation|MissingInput", Cause.BAD_REQUEST),
    Line(r"ParameterNotFound|InvalidInstanceID\.Malformed|InvalidVolume\..*|UserDataTooLarge", Cause.BAD_REQUEST),
)  # fmt: skip
_COMPILED = tuple(
    (re.compile(line.code), re.compile(line.message, re.IGNORECASE) if line.message else None, line)
    for line in _TABLE
)
# "Client." and "Server." stand before the codes of StateReason, and before all codes in CloudTrail.
_SIDE = re.compile(r"^(Client|Server)\.")
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+", re.IGNORECASE)
# botocore repeats what it was given, and one of the things given is a start script with keys in it.
_VALUE = re.compile(r", value: .*?(?=, (?:type|valid)|$)", re.DOTALL)
_ZERO = re.compile(r"\blimit of 0\b")


def failure_of(
    code: str, message: str, *, status: int = 0, call: str = "", retry_after: Seconds | None = None
) -> Failure:
    """The failure that an answer of AWS means.

    Parameters
    ----------
    code, message
        As AWS gives them; the code with or without `Client.` or `Server.`.
    status
        The HTTP status, 0 where there is none: it decides where the code tells nothing.
    call
        The name of the call. After `RunInstances` an answer of something on the way may have left machines behind.

    Examples
    --------
    >>> failure_of("Server.InsufficientInstanceCapacity", "We currently do not have sufficient capacity").cause.value
    'capacity'
    >>> failure_of("VcpuLimitExceeded", "... than your current vCPU limit of 0 allows ...").limit_is_zero
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
    """The cause of a code that the table does not know. A gateway that gives up (502, 504) says nothing of what EC2 did."""
    if status >= 500:
        return Cause.UNKNOWN_OUTCOME if call == CREATE else Cause.TRANSIENT
    return {429: Cause.RATE_LIMIT, 401: Cause.CREDENTIALS}.get(status, Cause.UNKNOWN)


def failure_of_exception(error: BaseException, *, call: str = "") -> Failure | None:
    """The failure behind an exception of boto3 or botocore; None where it is none of theirs. Imports neither: it goes by their names.

    Parameters
    ----------
    call
        The call it came out of; a create whose answer was lost is `unknown_outcome`, one that never left is `transient`.
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
"""No connection opened: nothing was asked for."""
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
"""The request left; what came of it was not heard."""


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
    """Why a machine ended, out of its `StateReason`: what would be a passing fault of a call is a machine that did not work."""
    found = failure_of(code, message)
    if found.cause is Cause.TRANSIENT or (
        found.cause is Cause.UNKNOWN and code.startswith("Server.")
    ):
        return replace(found, cause=Cause.UNHEALTHY, retry_after=None)
    return found
