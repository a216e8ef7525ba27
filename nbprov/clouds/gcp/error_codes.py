"""Google's reasons, operation codes and sentences, each with the cause that it means."""

from __future__ import annotations

from collections.abc import Mapping

from nbprov.clouds.word_patterns import word_pattern
from nbprov.model.failures import Cause, Scope

_CODES_OF: Mapping[Cause, str] = {
    Cause.CAPACITY: (
        "ZONE_RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS "
        "REGION_RESOURCE_POOL_EXHAUSTED RESOURCE_POOL_EXHAUSTED STOCKOUT insufficientCapacity "
        "INSUFFICIENT_CAPACITY resource_availability VM_MIN_COUNT_NOT_REACHED "
        "RESERVATION_CAPACITY_EXCEEDED IP_SPACE_EXHAUSTED IP_SPACE_EXHAUSTED_WITH_DETAILS "
        "ZONE_UNAVAILABLE"
    ),
    Cause.SPOT: "PREEMPTED INSTANCE_PREEMPTED",
    Cause.QUOTA: (
        "QUOTA QUOTA_EXCEEDED RESOURCE_QUOTA_EXCEEDED "
        "quotaExceeded LIMIT_EXCEEDED limitExceeded dailyLimitExceeded"
    ),
    Cause.CREDENTIALS: (
        "authError required UNAUTHENTICATED ACCESS_TOKEN_EXPIRED CREDENTIALS_MISSING expired "
        "ACCESS_TOKEN_TYPE_UNSUPPORTED ACCOUNT_STATE_INVALID API_KEY_INVALID keyInvalid "
        "keyExpired invalidCredentials invalid_grant invalid_client unauthorized_client "
        "SESSION_COOKIE_INVALID"
    ),
    Cause.BALANCE: (
        "BILLING_DISABLED accountDisabled billingNotEnabled CONSUMER_SUSPENDED accountDeleted "
        "accountUnverified"
    ),
    Cause.PERMISSION: (
        "accessNotConfigured SERVICE_DISABLED IAM_PERMISSION_DENIED insufficientPermissions "
        "PERMISSIONS_ERROR forbidden orgPolicyViolated "
        "SECURITY_POLICY_VIOLATED ACCESS_TOKEN_SCOPE_INSUFFICIENT USER_PROJECT_DENIED "
        "PERMISSION_DENIED insufficientAuthorizedParty "
        "LOCATION_TAX_POLICY_VIOLATED LOCATION_POLICY_VIOLATED CONSUMER_INVALID"
    ),
    Cause.RATE_LIMIT: (
        "rateLimitExceeded userRateLimitExceeded RATE_LIMIT_EXCEEDED tooManyRequests "
        "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED RESOURCE_OPERATION_RATE_EXCEEDED "
        "dailyLimitExceededUnreg variableTermLimitExceeded servingLimitExceeded"
    ),
    Cause.TRANSIENT: (
        "backendError internalError INTERNAL_ERROR RESOURCE_NOT_READY resourceNotReady "
        "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE resourceInUseByAnotherResource operationInProgress "
        "RESOURCE_IN_USE resourceInUse UNAVAILABLE SERVICE_UNAVAILABLE serviceUnavailable"
    ),
    Cause.CANCELLED: "OPERATION_CANCELED_BY_USER OPERATION_CANCELLED",
    Cause.BAD_REQUEST: (
        "invalid invalidParameter badRequest parseError wrongUrl INVALID_USAGE "
        "INVALID_FIELD_VALUE INVALID_ARGUMENT INVALID_PARAMETER alreadyExists "
        "RESOURCE_ALREADY_EXISTS duplicate "
        "fieldNotFound invalidUsage ALREADY_EXISTS UNIMPLEMENTED REQUIRED_FIELD_MISSING"
    ),
}
CODES: Mapping[str, Cause] = {
    code: cause for cause, codes in _CODES_OF.items() for code in codes.split()
}
"""The cause of each code that means the same whatever the message says.

For codes in `MEANT_FIRST` the message is read first.
"""

EXISTS = frozenset({"ALREADY_EXISTS", "alreadyExists", "RESOURCE_ALREADY_EXISTS", "duplicate"})
_SENTENCES: tuple[tuple[str, Cause, Scope | None], ...] = (
    (r"preempted (while|during)|was preempted", Cause.SPOT, None),
    (r"fingerprint (is |does |mis|not )?\w*(match|valid)", Cause.TRANSIENT, None),
    (
        r"api has not been used in project|access not configured|it is disabled\. enable it by "
        r"visiting",
        Cause.PERMISSION,
        None,
    ),
    (
        r"location [\w/-]+-[a-z] is not found|permission denied on '?locations/[\w-]+-[a-z]\b(?!-)",
        Cause.NOT_OFFERED,
        Scope.ZONE,
    ),
    (r"location [\w/-]+ is not found or access is unauthorized", Cause.NOT_OFFERED, Scope.REGION),
    (r"permission denied on '?locations/", Cause.NOT_OFFERED, Scope.REGION),
    (r"constraints/gcp\.resourcelocations", Cause.PERMISSION, Scope.REGION),
    (
        r"constraints/compute\.(restrict\w*machine\w*|restrict\w*type\w*)",
        Cause.PERMISSION,
        Scope.OFFER,
    ),
    (r"requires? (the )?reservation to be in ready state", Cause.CAPACITY, None),
    (
        r"ip[_ ]space[^.]* exhausted|ip_space_exhausted|(ex|in)ternalip resource pool is exhausted",
        Cause.CAPACITY,
        Scope.REGION,
    ),
    (r"quota '[^']*' exceeded|exceeded limit '", Cause.QUOTA, None),
    (
        r"zone .* is (not available|deprecated|turned down)|unknown zone|invalid value .*zone",
        Cause.NOT_OFFERED,
        None,
    ),
    (
        r"/(machinetypes|acceleratortypes|disktypes)/[^ ]* was not found|machine type with name "
        r".* does not exist",
        Cause.NOT_OFFERED,
        None,
    ),
    (r"/zones/[\w-]+'? was not found|/regions/[\w-]+'? was not found", Cause.NOT_OFFERED, None),
    (
        r"machine type .* (is not supported|cannot be used|is not available) in (this|the)? ?zone",
        Cause.NOT_OFFERED,
        None,
    ),
    (
        r"acceleratorcount|invalid accelerator count|number of accelerators?",
        Cause.NOT_OFFERED,
        None,
    ),
    # A disk of our own choice that a type of machine does not take says nothing about the type.
    (
        r"\[[^\[\]]*\bpd-\w[^\[\]]*\] features are not compatible|support (pd|hyperdisk)-\w+|"
        r"(pd|hyperdisk)-[\w-]+'? (disks? )?(types? )?(is|are|cannot|can not) ",
        Cause.BAD_REQUEST,
        Scope.OFFER,
    ),
    (r"features are not compatible for creating instance", Cause.NOT_OFFERED, None),
    # Images and subnets have permissions of their own: others of the account may be used.
    (
        r"required 'compute\.(images|snapshots|disks)\.use\w*' permission|"
        r"constraints/compute\.trustedimageprojects",
        Cause.PERMISSION,
        Scope.NOTHING,
    ),
    (r"required 'compute\.subnetworks\.\w+' permission", Cause.PERMISSION, Scope.REGION),
    (
        r"required '[^']*' permission|does not have permission|permission .* denied|does not have "
        r"access to service account",
        Cause.PERMISSION,
        None,
    ),
    (
        r"constraint (constraints/|[\w./]+ violated)|\borg(anization)?('s)? policy|"
        r"service perimeter|vpc service controls",
        Cause.PERMISSION,
        None,
    ),
    (r"/subnetworks/[^ ]* was not found|no subnetwork in", Cause.BAD_REQUEST, Scope.REGION),
    (r"/networks/[^ ]* was not found", Cause.PERMISSION, None),
    (
        r"service account (is disabled|does not exist|was not found)|"
        r"service ?accounts?[^ ]*' (of type '\w+' )?(was not found|"
        r"does not exist)",
        Cause.BAD_REQUEST,
        Scope.ACCOUNT,
    ),
    (
        r"the resource 'projects/[\w:.-]+' was not found|project .* (is not found|has been "
        r"deleted)|failed to find project",
        Cause.CREDENTIALS,
        None,
    ),
    (
        r"/(images?|snapshots|family)/[^ ]*'? (was not found|is (not found|obsolete|deleted))|"
        r"image resource cannot be (used|found)",
        Cause.BAD_REQUEST,
        None,
    ),
    (
        r"(cannot|could not) be smaller than the image|disk size .* smaller",
        Cause.BAD_REQUEST,
        None,
    ),
)
SENTENCES = tuple((word_pattern(pattern), cause, scope) for pattern, cause, scope in _SENTENCES)
"""Sentences of Google's; the first that matches counts, for the codes in `MEANT_FIRST`."""
MEANT_FIRST = frozenset(
    {
        "notFound",
        "RESOURCE_NOT_FOUND",
        "forbidden",
        "invalid",
        "badRequest",
        "UNSUPPORTED_OPERATION",
        "INVALID_FIELD_VALUE",
        "INVALID_ARGUMENT",
        "INVALID_USAGE",
        "conditionNotMet",
        "CONDITION_NOT_MET",
        "PERMISSION_DENIED",
        "IAM_PERMISSION_DENIED",
        "required",
    }
)
"""Codes so general that a known message says more."""
