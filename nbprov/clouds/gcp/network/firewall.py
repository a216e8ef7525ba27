"""Who may reach a machine: this computer its ssh port, the owner's machines each other, and nobody else anything.

Four kinds of rule, all aimed at network tags that only nbprov's machines bear, so that nothing else in the project changes:

- `nbprov-<owner>-ssh`: port 22 from this computer's address. Shared by all launches, costs nothing, outlives clusters.
- `nbprov-<owner>-inner`: everything between machines of one owner (nodes of a cluster); sources are named by tag, so nothing from outside fits.
- `nbprov-<owner>-deny`: everything else. The `default` network of every project lets the whole internet in to port 22; for these machines this
  rule comes before that one.
- `nbprov-<token>-ports`: the ports a launch opens to the internet, where it does; removed with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.instances.insert_bodies import network
from nbprov.clouds.web.public_ip import VARIABLE, my_address
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import SideObject

KIND = "firewall"
GLOBAL = "global"
KEPT: Seconds = 300.0
"""How long rules that were found right count as right; a person may have removed them by hand."""
PORTS_PRIORITY, SSH_PRIORITY, INNER_PRIORITY, DENY_PRIORITY = 890, 900, 910, 950
"""Less is stronger; rules that people make have 1000 unless they say otherwise."""
EVERYWHERE = "0.0.0.0/0"
MARK = "nbprov"


class Firewall:
    """The rules of one project's owners."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._right: dict[tuple[str, str, str, int], tuple[float, str]] = {}

    def ensure(self, compute: Compute, deadline: Deadline, owner: str, port: int = 22) -> None:
        """Make or correct the shared rules of an owner. One question where they are right, nothing where they were a moment ago.

        Raises
        ------
        CloudError
            With the cause; `permission` where rules may not be made, or this computer is seen at an IPv6 address.
        """
        address = my_address()
        if address.version != 4:
            words = f"Google's machines have IPv4 addresses, and this computer is seen at {address}: set {VARIABLE} to the IPv4 one it goes out by"
            raise CloudError(Failure(Cause.PERMISSION, words, "ipv6"))
        source = str(address)
        key = (compute.project, owner, network(), port)
        with self._lock:
            when, kept = self._right.get(key, (0.0, ""))
        if kept == source and 0 <= time.time() - when < KEPT:
            return
        wanted = shared_rules(owner, source, port)
        there = self._there(compute, deadline, f"{labels.owner_tag(owner)}-")
        for rule in wanted:
            self._put(compute, deadline, rule, there.get(rule["name"]))
        with self._lock:
            self._right[key] = (time.time(), source)

    def admit(self, compute: Compute, deadline: Deadline, tags: Sequence[str]) -> bool:
        """Put this computer's present address into the ssh rules that aim at these tags. True where one was changed."""
        source = str(my_address(fresh=True))
        changed = False
        for tag in tags:
            for name, rule in self._there(compute, deadline, f"{tag}-ssh").items():
                ours = str(rule.get("description") or "").split()[:1] == [MARK]
                if ours and rule.get("sourceRanges") != [source]:
                    self._patch(compute, deadline, name, {"sourceRanges": [source]})
                    changed = True
        if changed:
            with self._lock:
                self._right.clear()
        return changed

    def open_ports(
        self,
        compute: Compute,
        deadline: Deadline,
        owner: str,
        token: str,
        ports: Sequence[tuple[int, int]],
    ) -> None:
        """Open port ranges of a launch's machines to the internet, beside those that are open."""
        name = ports_rule(token)
        there = self._there(compute, deadline, name).get(name)
        ranges = _ranges(there) | {_words(p) for p in ports}
        if ranges:
            self._put(compute, deadline, _ports(owner, token, ranges), there)

    def close_ports(
        self,
        compute: Compute,
        deadline: Deadline,
        owner: str,
        token: str,
        ports: Sequence[tuple[int, int]],
    ) -> None:
        """Close ranges that were opened; the rule goes with its last range."""
        name = ports_rule(token)
        there = self._there(compute, deadline, name).get(name)
        if there is None:
            return
        ranges = _ranges(there) - {_words(p) for p in ports}
        if ranges:
            self._put(compute, deadline, _ports(owner, token, ranges), there)
        else:
            self.remove(compute, deadline, name)

    def remove(self, compute: Compute, deadline: Deadline, name: str) -> bool:
        """Remove a rule. False where it is busy; one that is gone is passed over."""
        try:
            compute.call("Firewalls", "delete_unary", deadline, firewall=name)
        except CloudError as error:
            return is_gone(error)
        with self._lock:
            self._right.clear()
        return True

    def of(self, compute: Compute, deadline: Deadline, owner: str) -> list[SideObject]:
        """All rules of an owner."""
        found = []
        for page in compute.pages("Firewalls", "list", deadline, filter='name eq "nbprov-.*"'):
            for rule in page.get("items") or ():
                words = str(rule.get("description") or "").split()
                # The filter is a convenience; what the rule says of itself decides.
                if len(words) == 3 and words[0] == MARK and words[1] == labels.clean(owner):
                    token = "" if words[2] == "-" else words[2]
                    found.append(
                        SideObject("gcp", GLOBAL, KIND, str(rule["name"]), token, shared=not token)
                    )
        return found

    def _there(self, compute: Compute, deadline: Deadline, start: str) -> dict[str, dict[str, Any]]:
        pages = compute.pages("Firewalls", "list", deadline, filter=f'name eq "{start}.*"')
        return {
            str(r["name"]): r
            for page in pages
            for r in page.get("items") or ()
            if str(r["name"]).startswith(start)
        }

    def _put(
        self,
        compute: Compute,
        deadline: Deadline,
        rule: Mapping[str, Any],
        there: Mapping[str, Any] | None,
    ) -> None:
        if there is None:
            try:
                compute.call(
                    "Firewalls",
                    "insert_unary",
                    deadline,
                    body=("firewall_resource", "Firewall", rule),
                )
            except CloudError as error:
                # Another kernel, or the other launch of a race, made it a moment ago, from this computer too.
                if error.failure.code not in ("alreadyExists", "RESOURCE_ALREADY_EXISTS"):
                    raise _explained(error) from error
            return
        if any(
            _plain(there.get(key)) != _plain(value)
            for key, value in rule.items()
            if key not in ("name", "network", "description")
        ):
            self._patch(
                compute,
                deadline,
                str(rule["name"]),
                {k: v for k, v in rule.items() if k not in ("name", "network")},
            )

    @staticmethod
    def _patch(compute: Compute, deadline: Deadline, name: str, change: Mapping[str, Any]) -> None:
        compute.call(
            "Firewalls",
            "patch_unary",
            deadline,
            body=("firewall_resource", "Firewall", {"name": name, **change}),
            firewall=name,
        )


def shared_rules(owner: str, source: str, port: int = 22) -> list[dict[str, Any]]:
    """The three rules that every machine of an owner is behind.

    Parameters
    ----------
    source
        The network to let in, `203.0.113.7/32`.
    port
        Where sshd listens, if not at 22: then a rule of its own.
    """
    tag = labels.owner_tag(owner)
    common = {
        "network": network(),
        "direction": "INGRESS",
        "targetTags": [tag],
        "description": _description(owner, "-"),
        "disabled": False,
    }
    # Rules are the project's, each on one network: those on another than the usual one need other names.
    place = "" if network() == "global/networks/default" else f"-{labels.short(network(), 4)}"
    ssh = f"{tag}-ssh{place}" if port == 22 else f"{tag}-ssh{place}-{port}"
    return [
        {
            **common,
            "name": ssh,
            "priority": SSH_PRIORITY,
            "sourceRanges": [source],
            "allowed": [{"IPProtocol": "tcp", "ports": [str(port)]}],
        },
        {
            **common,
            "name": f"{tag}-inner{place}",
            "priority": INNER_PRIORITY,
            "sourceTags": [tag],
            "allowed": [{"IPProtocol": "all"}],
        },
        {
            **common,
            "name": f"{tag}-deny{place}",
            "priority": DENY_PRIORITY,
            "sourceRanges": [EVERYWHERE],
            "denied": [{"IPProtocol": "all"}],
        },
    ]


def ports_rule(token: str) -> str:
    """The name of the rule with a launch's open ports."""
    return f"{labels.launch_tag(token)}-ports"


def is_gone(error: CloudError) -> bool:
    """Whether a refusal says that what was named is not there."""
    return error.failure.code in ("notFound", "RESOURCE_NOT_FOUND", "404")


def _ports(owner: str, token: str, ranges: set[str]) -> dict[str, Any]:
    return {
        "name": ports_rule(token),
        "network": network(),
        "direction": "INGRESS",
        "priority": PORTS_PRIORITY,
        "targetTags": [labels.launch_tag(token)],
        "sourceRanges": [EVERYWHERE],
        "allowed": [{"IPProtocol": "tcp", "ports": sorted(ranges)}],
        "description": _description(owner, token),
        "disabled": False,
    }


def _description(owner: str, token: str) -> str:
    """What a rule says of itself: firewall rules take no labels."""
    return f"{MARK} {labels.clean(owner)} {token}"


def _words(ports: tuple[int, int]) -> str:
    low, high = ports
    return str(low) if low == high else f"{low}-{high}"


def _ranges(rule: Mapping[str, Any] | None) -> set[str]:
    return {str(p) for entry in (rule or {}).get("allowed") or () for p in entry.get("ports") or ()}


def _plain(value: Any) -> Any:
    """A value as it is compared: Google leaves empty lists and false out, and gives an address for a name."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v not in (None, [], "")}
    return False if value is None else value


def _explained(error: CloudError) -> CloudError:
    """A network that is not there, in words that say what to do."""
    if "network" not in error.failure.message or error.failure.cause is not Cause.PERMISSION:
        return error
    words = f"{error.failure.message}: name the network to use in NBPROV_GCP_NETWORK"
    return CloudError(Failure(Cause.PERMISSION, words, error.failure.code))
