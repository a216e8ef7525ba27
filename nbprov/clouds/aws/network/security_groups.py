"""Security groups, which decide who may reach a machine.

One group for each owner and network admits ssh and the nodes to each other; one for each launch
holds its open ports. Rules live in groups and never in the create, so that a repeated create is
identical to the byte even after this computer's address changed.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.clouds.web.public_ip import Network, my_ipv4_address
from nbprov.model.failures import Cause, CloudError, Failure

SSH = 22
ANYWHERE = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
DUPLICATE = frozenset({"InvalidPermission.Duplicate", "InvalidGroup.Duplicate"})
MISSING = frozenset(
    {"InvalidPermission.NotFound", "InvalidGroup.NotFound", "InvalidGroupId.Malformed"}
)
Ports = tuple[int, int]


class SecurityGroups:
    """The security groups of one owner."""

    def __init__(self, session: AwsAccount) -> None:
        self._session = session

    def shared(self, region: str, vpc: str, owner: str, ssh_port: int = SSH) -> str:
        """Return the owner's group in a network, which admits this computer and nobody else.

        Parameters
        ----------
        ssh_port
            The port of sshd on the image.

        Raises
        ------
        CloudError
            With the cause; `bad_request` if this computer is seen at an IPv6 address.
        """
        address = my_ipv4_address()
        name = group_name(owner)
        found = self._find(region, vpc, name)
        if found is None:
            group = self._make(region, vpc, name, owner, "")
            found = {"GroupId": group, "IpPermissions": [], "IpPermissionsEgress": []}
        self._admit(region, found, owner, address, {SSH, ssh_port})
        self._join(region, found)
        return str(found["GroupId"])

    def for_ports(
        self, region: str, vpc: str, owner: str, token: str, ports: Iterable[Ports]
    ) -> str:
        """Return the group of one launch, with these ports open to the internet."""
        name = group_name(owner, token)
        found = self._find(region, vpc, name)
        group = str(found["GroupId"]) if found else self._make(region, vpc, name, owner, token)
        self.open(region, group, ports)
        return group

    def open(self, region: str, group: str, ports: Iterable[Ports]) -> None:
        """Open these ports to the internet; open ones are skipped."""
        for pair in ports:
            for network in ANYWHERE:
                self._authorize(region, group, _rule(pair, network, "nbprov: opened by the spec"))

    def close(self, region: str, group: str, ports: Iterable[Ports]) -> None:
        """Remove the rules of `open`; closed ports are skipped."""
        for pair in ports:
            for network in ANYWHERE:
                self._revoke(region, group, _rule(pair, network, ""))

    def admit(self, region: str, group: str, owner: str, ssh_ports: Iterable[int]) -> bool:
        """Look up this computer's address again and put it into our rules.

        Return whether one changed. They stay as they are if that is an IPv6 address.
        """
        address = my_ipv4_address(fresh=True)
        answer = self._session.call(region, "DescribeSecurityGroups", GroupIds=[group])
        return self._admit(region, answer["SecurityGroups"][0], owner, address, {SSH, *ssh_ports})

    def find(self, region: str, owner: str) -> list[dict[str, Any]]:
        """Return all groups that bear this owner's tag."""
        filters = [{"Name": "tag:nbprov-owner", "Values": [owner]}]
        return [
            g
            for page in self._session.pages(region, "DescribeSecurityGroups", Filters=filters)
            for g in page["SecurityGroups"]
        ]

    def delete(self, region: str, group: str) -> None:
        """Delete a group; one that is gone is skipped. Raises while a machine is in it."""
        try:
            self._session.call(region, "DeleteSecurityGroup", GroupId=group)
        except CloudError as error:
            if error.failure.code not in MISSING:
                raise

    # ------------------------------------------------------------ groups

    def _find(self, region: str, vpc: str, name: str) -> dict[str, Any] | None:
        filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": [name]}]
        groups: list[dict[str, Any]] = self._session.call(
            region, "DescribeSecurityGroups", Filters=filters
        )["SecurityGroups"]
        return min(groups, key=lambda g: str(g["GroupId"]), default=None)

    def _make(self, region: str, vpc: str, name: str, owner: str, token: str) -> str:
        tags = {"nbprov-owner": owner, "Name": name, **({"nbprov-token": token} if token else {})}
        try:
            answer = self._session.call(
                region,
                "CreateSecurityGroup",
                GroupName=name,
                Description="nbprov: open ports"
                if token
                else "nbprov: ssh from the computer of its user, and its machines among themselves",
                VpcId=vpc,
                TagSpecifications=[
                    {
                        "ResourceType": "security-group",
                        "Tags": [{"Key": k, "Value": v} for k, v in tags.items()],
                    }
                ],
            )
        except CloudError as error:
            # Another kernel made it, or an earlier attempt whose answer was lost.
            found = self._find(region, vpc, name) if error.failure.code in DUPLICATE else None
            if found is None:
                raise
            return str(found["GroupId"])
        return str(answer["GroupId"])

    # ------------------------------------------------------------ rules

    def _admit(
        self, region: str, group: dict[str, Any], owner: str, address: Network, ports: Iterable[int]
    ) -> bool:
        """Change our rules for sshd's ports to exactly this address.

        The new rule is added first, so that open sessions continue.
        """
        identity, mark = str(group["GroupId"]), rule_mark(owner)
        there = {
            (int(p["FromPort"]), ipaddress.ip_network(str(r[key]), strict=False))
            for p in group.get("IpPermissions", [])
            if p.get("IpProtocol") == "tcp" and p.get("FromPort") is not None
            for key, ranges in (
                ("CidrIp", p.get("IpRanges", [])),
                ("CidrIpv6", p.get("Ipv6Ranges", [])),
            )
            for r in ranges
            if r.get("Description") == mark
        }
        # A port that another machine of the owner's listens on stays open, for the new address.
        wanted = {(port, address) for port in {*ports, *(port for port, _ in there)}}
        for port, network in sorted(wanted - there, key=str):
            self._authorize(region, identity, _rule((port, port), network, mark))
        for port, network in sorted(there - wanted, key=str):
            self._revoke(region, identity, _rule((port, port), network, ""))
        return wanted != there

    def _join(self, region: str, group: dict[str, Any]) -> None:
        """Let the machines of the group reach each other, as the nodes of a cluster do."""
        identity = str(group["GroupId"])
        if any(
            pair.get("GroupId") == identity
            for p in group.get("IpPermissions", [])
            for pair in p.get("UserIdGroupPairs", [])
        ):
            return
        self._authorize(
            region,
            identity,
            {
                "IpProtocol": "-1",
                "UserIdGroupPairs": [{"GroupId": identity, "Description": "nbprov: nodes"}],
            },
        )

    def join_out(self, region: str, group: str) -> None:
        """Allow outgoing traffic within the group.

        EFA needs a rule for the group itself; the default rule for all addresses does not count.
        """
        rule = {
            "IpProtocol": "-1",
            "UserIdGroupPairs": [{"GroupId": group, "Description": "nbprov: nodes"}],
        }
        with _passed_over(DUPLICATE):
            self._session.call(
                region, "AuthorizeSecurityGroupEgress", GroupId=group, IpPermissions=[rule]
            )

    def _authorize(self, region: str, group: str, rule: dict[str, Any]) -> None:
        with _passed_over(DUPLICATE):
            self._session.call(
                region, "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[rule]
            )

    def _revoke(self, region: str, group: str, rule: dict[str, Any]) -> None:
        with _passed_over(MISSING):
            self._session.call(
                region, "RevokeSecurityGroupIngress", GroupId=group, IpPermissions=[rule]
            )


@contextlib.contextmanager
def _passed_over(codes: frozenset[str]) -> Any:
    try:
        yield
    except CloudError as error:
        if error.failure.code not in codes:
            raise


def group_name(owner: str, token: str = "") -> str:
    """Return the name of an owner's group, or of the group of one of its launches.

    Examples
    --------
    >>> group_name("0123456789abcdef"), group_name("0123456789abcdef", "feedbeeffeedbeef")
    ('nbprov-0123456789abcdef', 'nbprov-0123456789abcdef-feedbeeffeed')
    """
    plain = "".join(c for c in owner if c.isalnum() or c in "-_")[:32]
    return f"nbprov-{plain}-{token[:12]}" if token else f"nbprov-{plain}"


def rule_mark(owner: str) -> str:
    """Return the description that identifies our rules for ssh: other rules are never replaced."""
    return f"nbprov {group_name(owner).removeprefix('nbprov-')}"


def covered(ports: Sequence[Ports]) -> tuple[Ports, ...]:
    """Return port ranges in order, without duplicates.

    Raises
    ------
    CloudError
        `bad_request` for an invalid range.
    """
    for low, high in ports:
        if not 1 <= low <= high <= 65535:
            raise CloudError(
                Failure(Cause.BAD_REQUEST, f"{low}-{high} is not a valid port range", "bad-ports")
            )
    return tuple(sorted(set(ports)))


def without(ports: Sequence[Ports], ssh_port: int = SSH) -> tuple[Ports, ...]:
    """Return port ranges without the ports of sshd, which are never opened to the internet.

    Examples
    --------
    >>> without([(1, 100), (22, 22), (2222, 2300)], 2222)
    ((1, 21), (23, 100), (2223, 2300))
    """
    for shut in {SSH, ssh_port}:
        ports = [
            p
            for low, high in ports
            for p in ([(low, shut - 1), (shut + 1, high)] if low <= shut <= high else [(low, high)])
        ]
    return tuple((low, high) for low, high in ports if low <= high)


def _rule(ports: Ports, network: Network, words: str) -> dict[str, Any]:
    told = {"Description": words} if words else {}
    key, ranges = ("CidrIp", "IpRanges") if network.version == 4 else ("CidrIpv6", "Ipv6Ranges")
    return {
        "IpProtocol": "tcp",
        "FromPort": ports[0],
        "ToPort": ports[1],
        ranges: [{key: str(network), **told}],
    }
