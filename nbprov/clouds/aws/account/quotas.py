"""How many vCPUs an account may run, and how many it runs now.

Limits come from Service Quotas. They count vCPUs for each family, separately for on-demand and spot
machines. The codes are those of
docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (on demand) and
docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html (spot).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbprov.clouds.aws.account.clients import QUICK, AwsAccount
from nbprov.model.clock import Seconds

ON_DEMAND: Mapping[str, str] = {
    "Standard": "L-1216C47A",
    "G and VT": "L-DB2E81BA",
    "P": "L-417A185B",
    "F": "L-74FC7D96",
    "Inf": "L-1945791B",
    "Trn": "L-2C3B7624",
    "DL": "L-6E869C2A",
    "X": "L-7295265B",
    "High Memory": "L-43DA4232",
    "HPC": "L-F7808C92",
}
SPOT: Mapping[str, str] = {
    "Standard": "L-34B43A08",
    "G and VT": "L-3819A6DF",
    # For P2, P3 and P4. P5 has a limit of its own; none is known for P6.
    "P": "L-7212CCBC",
    "P5": "L-C4BD4855",
    "F": "L-88CF9481",
    "Inf": "L-B5D1601B",
    "Trn": "L-6B0D517C",
    "DL": "L-85EED4F7",
    "X": "L-E3A00192",
}
HOLDS: Seconds = 600.0
"""How long a limit is remembered. AWS takes minutes to days to raise one."""


_FAMILIES: Mapping[str, str] = {
    "inf": "Inf",
    "trn": "Trn",
    "dl": "DL",
    "hpc": "HPC",
    "u": "High Memory",
    "p": "P",
    "g": "G and VT",
}
_FAMILIES = {**_FAMILIES, "gr": "G and VT", "vt": "G and VT", "f": "F", "x": "X", "mac": ""}


def family_of_type(instance_type: str) -> str:
    """Return the family whose limit a type counts against; empty if it has another kind of limit.

    Examples
    --------
    >>> [family_of_type(t) for t in ("g5.xlarge", "im4gn.large", "p5.48xlarge")]
    ['G and VT', 'Standard', 'P']
    >>> [family_of_type(t) for t in ("u-6tb1.metal", "mac2.metal")]
    ['High Memory', '']
    """
    letters = re.match(r"[a-z]*", instance_type)
    name = letters[0] if letters else ""
    return _FAMILIES.get(name, "Standard" if name[:1] in tuple("acdhimrtz") else "")


def bucket(instance_type: str, *, spot: bool) -> str:
    """Return the limit that a machine counts against; empty if none is known.

    On spot, newer P types do not count against the limit of the older ones.

    Examples
    --------
    >>> [bucket(t, spot=True) for t in ("p4d.24xlarge", "p5en.48xlarge", "p6-b200.48xlarge")]
    ['P', 'P5', '']
    >>> bucket("p5.48xlarge", spot=False)
    'P'
    """
    family = family_of_type(instance_type)
    if not spot or family != "P" or instance_type[:2] in ("p2", "p3", "p4"):
        return family
    return "P5" if instance_type.startswith("p5") else ""


def limit(session: AwsAccount, region: str, family: str, *, spot: bool) -> float | None:
    """Return how many vCPUs of a family may run in a region.

    None if the code of its limit is not known.
    """
    code = (SPOT if spot else ON_DEMAND).get(family)
    if code is None:
        return None
    key = ("limit", region, code)
    known = session.fact(key, HOLDS)
    if known is None:
        answer = session.call(
            region,
            "GetServiceQuota",
            QUICK,
            service="service-quotas",
            ServiceCode="ec2",
            QuotaCode=code,
        )
        known = float(answer["Quota"]["Value"])
        session.keep(key, known)
    return float(known)


def running(
    session: AwsAccount, region: str, sizes: Mapping[str, float]
) -> list[tuple[str, bool, float]]:
    """Return the machines that count against limits now: type, whether spot, vCPUs.

    Parameters
    ----------
    sizes
        vCPUs by type, for answers that lack them. A type that is not among them counts as none, so
        the sum is never too large.
    """
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found = []
    for page in session.pages(region, "DescribeInstances", QUICK, Filters=filters):
        for row in (i for r in page["Reservations"] for i in r["Instances"]):
            kind = str(row.get("InstanceType", ""))
            found.append(
                (kind, row.get("InstanceLifecycle") == "spot", _vcpus(row) or sizes.get(kind, 0.0))
            )
    return found


def _vcpus(row: Mapping[str, Any]) -> float:
    told = row.get("CpuOptions") or {}
    return float(told.get("CoreCount") or 0) * float(told.get("ThreadsPerCore") or 0)
