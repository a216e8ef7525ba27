"""EC2's error codes and the codes of ended machines, each with the cause that it means."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.failures import Cause, Scope


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
    sure
        The code says all: its words are not read for another meaning. A row with a message is sure.
    """

    code: str
    cause: Cause
    message: str = ""
    scope: Scope | None = None
    sure: bool = False


QUARANTINE = "AWSCompromisedKeyQuarantine"
"""The policy that AWS puts on a key that was found in public."""

TABLE = (
    # ---- what no region does, and what one request may not hold
    Line(r"NoSuchVersion", Cause.BAD_REQUEST, scope=Scope.ACCOUNT, sure=True),
    Line(r"(Request)?ResourceCountExceeded", Cause.BAD_REQUEST, sure=True),
    Line(r"InvalidClientToken|UnknownVolumeType|UnsupportedProtocol", Cause.BAD_REQUEST, sure=True),
    # ---- spot: an unfilled request uses the code of on-demand machines; `failure_of` reads on
    Line(
        r"SpotMaxPriceTooLow|SpotInstance(Termination|Shutdown|Interruption)|price-too-low|"
        r"capacity-(not-available|oversubscribed)|schedule-expired|not-scheduled-yet|"
        r"(launch|az|placement)-group-constraint|"
        r"instance-(terminated|stopped|hibernated)-(by-price|no-capacity|capacity-oversubscribed|"
        r"launch-group-constraint|by-service)|marked-for-(termination|stop|hibernation)",
        Cause.SPOT,
    ),
    # ---- out of capacity
    Line(r"InsufficientAddressCapacity", Cause.CAPACITY, scope=Scope.REGION),
    Line(
        r"Insufficient\w*Capacity\w*|InsufficientFreeAddressesInSubnet|ReservationCapacityExceeded|"
        r"UnfulfillableCapacity|ZonesUnavailable|CapacityReservation(TimeOut|\w*(NotActive|Expired))|"
        r"InvalidCapacityReservationState(\.\w+)?|(Incompatible|Unavailable)HostRequirements",
        Cause.CAPACITY,
    ),
    # ---- requests that are too many, or not done yet
    Line(
        r"RequestLimitExceeded|[\w.]*Throttl[\w.]*|SlowDown|TooManyRequests(Exception)?|"
        r"BandwidthLimitExceeded|PriorRequestNotComplete|TransactionInProgressException",
        Cause.RATE_LIMIT,
    ),
    # ---- limits of the account, all of them by region
    Line(
        r"PendingVerification", Cause.QUOTA, r"account is currently being verified", Scope.ACCOUNT
    ),
    Line(r"PendingVerification", Cause.QUOTA),
    Line(
        r"(Tag|TagsPerResource|Filter)LimitExceeded",
        Cause.BAD_REQUEST,
        scope=Scope.ACCOUNT,
        sure=True,
    ),
    # What one machine of a type may have is no limit of the account.
    Line(
        r"(InvalidInterface\.)?(Private)?IpAddressLimitExceeded|AttachmentLimitExceeded|"
        r"InstanceTypeLimit\w*",
        Cause.BAD_REQUEST,
        scope=Scope.OFFER,
        sure=True,
    ),
    Line(
        r"\w*(Limit|Quota|Count|Maximum\w*)Exceeded(Exception|Fault)?|VolumeIOPSLimit|limit-exceeded|"
        r"MaxScheduledInstanceCapacityExceeded",
        Cause.QUOTA,
    ),
    # ---- not offered in this place
    Line(r"Unsupported(Operation)?", Cause.BAD_REQUEST, r"can(no|')t (be )?(stop|start|hibernate)"),
    # The account takes IMDSv2 alone, region by region.
    Line(r"UnsupportedOperation", Cause.BAD_REQUEST, r"httpTokensEnforced", Scope.REGION),
    Line(r"Unsupported(Tenancy|Hibernation\w*|InstanceAttribute)", Cause.BAD_REQUEST),
    Line(
        r"Unsupported(Operation|HostConfiguration)?|VolumeTypeNotAvailableInZone|"
        r"Invalid(Availability)?Zone(\.NotFound)?|InstanceTypeNotSupported\w*",
        Cause.NOT_OFFERED,
    ),
    Line(
        r"InvalidInstanceType(\.NotFound)?",
        Cause.NOT_OFFERED,
        scope=Scope.REGION,
        sure=True,
    ),
    # A default network can be made in a minute: no block of a day.
    Line(r"VPC(Id|Resource)NotSpecified", Cause.BAD_REQUEST, scope=Scope.REGION, sure=True),
    Line(r"\w+\.?NotSupported", Cause.BAD_REQUEST, scope=Scope.OFFER, sure=True),
    Line(
        r"InvalidParameterValue",
        Cause.NOT_OFFERED,
        r"for InstanceType\b|instance type.{0,80}(does not exist|is not (supported|available))",
        Scope.REGION,
    ),
    Line(
        r"MissingInput|InvalidInput",
        Cause.BAD_REQUEST,
        r"no default subnet for availability zone",
        Scope.ZONE,
    ),
    # ---- credentials, permissions and billing
    Line(r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted", Cause.PERMISSION, "", Scope.REGION),
    Line(
        r"AuthFailure",
        Cause.PERMISSION,
        r"not authorized (for|to use)( the)? (images?|ami)",
        Scope.REGION,
    ),
    # Terms are accepted for one product, which is an image.
    Line(r"OptInRequired", Cause.PERMISSION, r"marketplace|accept (the )?terms", Scope.NOTHING),
    Line(r"RegionDisabled(Exception)?", Cause.PERMISSION, scope=Scope.REGION),
    Line(
        r"Blocked|OptInRequired|AccountDisabled|SubscriptionRequired(Exception)?|NotSignedUp|"
        r"InvalidPaymentInstrument",
        Cause.BALANCE,
    ),
    # A deny that is written down often names regions, and so does a policy that allows: what was
    # refused in a region says nothing of the others.
    # AWS denies a key that became public everything that costs, in all regions.
    Line(
        r"UnauthorizedOperation|AccessDenied(Exception)?",
        Cause.PERMISSION,
        QUARANTINE,
        Scope.ACCOUNT,
    ),
    Line(
        r"UnauthorizedOperation|AccessDenied(Exception)?",
        Cause.PERMISSION,
        r"service control policy|explicit deny|"
        r"on resource: arn:aws(?:-[\w-]*)?:ec2:[a-z]{2}-[\w-]+:",
        Scope.REGION,
    ),
    # EC2's page on machines that end at once: the key of the encrypted disk may not be used, and
    # keys are a region's. With other words the code stands for more.
    Line(
        r"Client\.InternalError",
        Cause.PERMISSION,
        r"\bkms\b|\bkey\b|encrypt|client error\b.{0,50}launch",
        Scope.REGION,
    ),
    Line(r"CustomerKeyHasBeenRevoked", Cause.PERMISSION, scope=Scope.REGION, sure=True),
    Line(
        r"UnauthorizedOperation|AccessDenied(Exception)?|OperationNotPermitted",
        Cause.PERMISSION,
    ),
    Line(
        r"AuthFailure|InvalidClientTokenId|UnrecognizedClient(Exception)?|SignatureDoesNotMatch|"
        r"(Incomplete|Invalid)Signature(Exception)?|ExpiredToken(Exception)?|RequestExpired|"
        r"InvalidAccessKeyId|MissingAuthenticationToken(Exception)?|Invalid(Identity)?Token|"
        r"IDPRejectedClaim|"
        r"RequestTimeTooSkewed|NotAuthorizedException|UnauthorizedException",
        Cause.CREDENTIALS,
    ),
    # ---- temporary faults
    Line(
        r"InternalError|InternalFailure|ServerInternal|RetryableError|(Service)?Unavailable(Exception)?|InternalServerError|"
        r"InternalServiceError|RequestTimeout(Exception)?|IncorrectState(Exception)?|"
        r"InvalidNetworkInterface\.InUse|InvalidIPAddress\.InUse",
        Cause.TRANSIENT,
    ),
    # What was made a moment ago may not be known yet, and what is used may not be deleted yet.
    Line(
        r"IncorrectInstanceState|ConcurrentTagAccess|InvalidGroup\.(InUse|NotFound)|VolumeInUse|"
        r"DependencyViolation|InvalidInstanceID\.NotFound|BundlingInProgress",
        Cause.TRANSIENT,
        sure=True,
    ),
    # ---- ended machines: codes of StateReason
    Line(
        r"IdempotentInstanceTerminated|InstanceInitiatedShutdown|ScheduledStop|InstanceTerminated|"
        r"system-error",
        Cause.UNHEALTHY,
    ),
    Line(
        r"UserInitiated(Shutdown|Hibernate)|canceled-before-fulfillment|"
        r"instance-(terminated|stopped|hibernated)-by-user",
        Cause.CANCELLED,
    ),
    # ---- what a request names and a region has not
    # A disk smaller than the image, which is as large in each region: this alternative is out.
    Line(r"InvalidBlockDeviceMapping", Cause.BAD_REQUEST, r"smaller than"),
    Line(
        r"InvalidAMI|InvalidAMI(ID|Name)\.(NotFound|Unavailable)|InvalidSnapshot\.\w+|"
        r"InvalidKeyPair\.NotFound|InvalidSubnet(ID)?(\.\w+)?|InvalidVpcID\.NotFound|"
        r"InvalidK(MSKey|msKey)\.\w+|KMS\.\w+|InvalidPlacementGroup\.\w+|InvalidVolume\.\w+|"
        r"Invalid(CapacityReservation|Reservation|Host|NetworkInterface|SecurityGroup)I[dD]"
        r"(\.\w+)?|InvalidLaunchTemplate\w*(\.\w+)?",
        Cause.BAD_REQUEST,
        scope=Scope.REGION,
        sure=True,
    ),
    Line(
        r"InvalidParameter(Value|Combination)",
        Cause.BAD_REQUEST,
        r"(iam)?instance ?profile",  # roles are the account's, in all regions
        Scope.ACCOUNT,
    ),
    Line(r"TagPolicyViolation(Exception)?|FreeTier\w*", Cause.BAD_REQUEST, scope=Scope.ACCOUNT),
    # ---- invalid requests
    Line(
        r"BootForVolumeTypeUnsupported|constraint-not-fulfillable|bad-parameters|IdempotentParameterMismatch|ParameterNotFound|"
        r"UserDataTooLarge|MalformedQueryString|DryRunOperation|Missing(Parameter|Action)",
        Cause.BAD_REQUEST,
        sure=True,
    ),
    Line(
        r"(Client)?Invalid[A-Z]\w*(\.\w+)?|MissingInput|Unknown(Parameter|PrincipalType\.\w+)|"
        r"ValidationError|ValidationException",
        Cause.BAD_REQUEST,
    ),
)
"""The first row that matches counts."""
