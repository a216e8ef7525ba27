"""Answers of EC2, SSM, Service Quotas and STS that the double writes itself, without moto."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""
JSON = "application/x-amz-json-1.1"

REFUSALS: dict[str, tuple[int, str, str]] = {
    "capacity": (
        500,
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient {type} capacity in the Availability Zone you "
        "requested ({zone}). Our system will be working on "
        "provisioning additional capacity. You can currently get {type} capacity by not "
        "specifying an Availability Zone in your request.",
    ),
    "quota": (
        400,
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 8 allows for "
        "the instance bucket that the specified instance "
        "type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request "
        "an adjustment to this limit.",
    ),
    "credentials": (
        401,
        "AuthFailure",
        "AWS was not able to validate the provided access credentials",
    ),
    "balance": (
        401,
        "Blocked",
        "This account is currently blocked and not recognized as a valid account.",
    ),
    "permission": (
        403,
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: "
        "arn:aws:iam::123456789012:user/ana is not authorized to perform: "
        "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:instance/* because "
        "no identity-based policy allows the "
        "ec2:RunInstances action. Encoded authorization failure message: AbC123",
    ),
    "bad_request": (
        400,
        "InvalidParameterCombination",
        "The parameters that were given do not go together.",
    ),
    "not_offered": (
        400,
        "Unsupported",
        "Your requested instance type ({type}) is not supported in your requested Availability "
        "Zone ({zone}). Please retry your request by "
        "not specifying an Availability Zone or choosing us-east-1a.",
    ),
    "rate_limit": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "transient": (500, "InternalError", "An internal error has occurred"),
    "spot": (
        500,
        "InsufficientInstanceCapacity",
        "There is no Spot capacity available that matches your request.",
    ),
    "volume_tags": (
        403,
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: "
        "arn:aws:iam::123456789012:user/ana is not authorized to perform: "
        "ec2:CreateTags on resource: arn:aws:ec2:us-east-1:123456789012:volume/* because no "
        "identity-based policy allows it.",
    ),
}
"""Scripted refusals: status, code and message in EC2's words (the contract's corpus names the
sources)."""


def refused(
    code: str,
    message: str,
    status: int,
    *,
    service: str = "ec2",
    headers: dict[str, str] | None = None,
) -> Answer:
    """Return an error in the format of its service."""
    words = escape(message)
    if service in ("ssm", "service-quotas", "pricing"):
        return (
            status,
            {"Content-Type": JSON},
            json.dumps({"__type": code, "message": message}).encode(),
        )
    text = (
        f"<Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors>"
        "<RequestID>double</RequestID>"
    )
    if service == "sts":
        text = (
            f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{words}</Message></Error>"
            "<RequestId>double</RequestId>"
        )
        return (
            status,
            {"Content-Type": "text/xml"},
            f"<ErrorResponse>{text}</ErrorResponse>".encode(),
        )
    return (
        status,
        {"Content-Type": "text/xml", **(headers or {})},
        f"<Response>{text}</Response>".encode(),
    )


def as_json(value: object) -> Answer:
    """An answer of SSM or Service Quotas."""
    return 200, {"Content-Type": JSON}, json.dumps(value).encode()


def as_xml(call: str, inside: str) -> Answer:
    """An answer of EC2."""
    text = (
        f"<{call}Response "
        f'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>double</requestId>{inside}</{call}Response>'
    )
    return 200, {"Content-Type": "text/xml"}, text.encode()
