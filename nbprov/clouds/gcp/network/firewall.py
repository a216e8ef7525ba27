"""Firewall rules: ssh from this computer, everything between the owner's machines, nothing else.

There are four rules, all for network tags that only nbprov's machines have, so that nothing else in
the project changes:

- `nbprov-<owner>-ssh`: port 22 from this computer's address. Shared by all launches, free, and kept
  when clusters end.
- `nbprov-<owner>-inner`: everything between machines of one owner (nodes of a cluster). Sources are
  named by tag, so that nothing from outside matches.
- `nbprov-<owner>-deny`: everything else. The `default` network of every project opens port 22 to
  the whole internet; for these machines this rule takes precedence.
- `nbprov-<token>-ports`: the ports that a launch opens to the internet, if any; removed with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.instances.insert_bodies import network
from nbprov.clouds.web.public_ip import my_ipv4_address
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import SideObject

KIND = "firewall"
GLOBAL = "global"
KEPT: Seconds = 300.0
"""How long rules that were checked count as right; after that a user may have removed them by hand.
"""
PORTS_PRIORITY, SSH_PRIORITY, INNER_PRIORITY, DENY_PRIORITY = 890, 900, 910, 950
"""A lower number takes precedence; rules of users have 1000 unless they say otherwise."""
EVERYWHERE = "0.0.0.0/0"
MARK = "nbprov"


class Firewall:
    """The firewall rules of the owners in a project."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._right: dict[tuple[str, str, str, int], tuple[float, str]] = {}

    def ensure(self, compute: Compute, deadline: Deadline, owner: str, port: int = 22) -> None:
        """Create or correct the shared rules of an owner.

        This takes one request if they are right, and none if they were checked a moment ago.

        Raises
        ------
        CloudError
            With the cause; `permission` if rules may not be created, `bad_request` if this computer
            is seen at an IPv6 address.
        """
        source = str(my_ipv4_address())
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
        """Put this computer's current address into the ssh rules for these tags.

        Return whether one changed. The rules stay as they are if that is an IPv6 address.
        """
        source = str(my_ipv4_address(fresh=True))
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
        """Open port ranges of a launch's machines to the internet, beside those already open."""
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
        """Close port ranges; the rule is removed with its last range."""
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
        """Remove a rule. Returns False if it is busy; one that is gone is skipped."""
        try:
            compute.call("Firewalls", "delete_unary", deadline, firewall=name)
        except CloudError as error:
            return is_gone(error)
        with self._lock:
            self._right.clear()
        return True

    def of(self, compute: Compute, deadline: Deadline, owner: str) -> list[SideObject]:
        """Return all rules of an owner."""
        found = []
        for page in compute.pages("Firewalls", "list", deadline, filter='name eq "nbprov-.*"'):
            for rule in page.get("items") or ():
                words = str(rule.get("description") or "").split()
                # The filter is a convenience; the rule's own description decides.
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
                # Another kernel, or another launch of the race, created it a moment ago, from this
                # computer too.
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
    """Return the three rules that apply to every machine of an owner.

    Parameters
    ----------
    source
        The network to admit, such as `203.0.113.7/32`.
    port
        The port of sshd; if it is not 22, it has a rule of its own.
    """
    tag = labels.owner_tag(owner)
    common = {
        "network": network(),
        "direction": "INGRESS",
        "targetTags": [tag],
        "description": _description(owner, "-"),
        "disabled": False,
    }
    # Rules belong to the project and each to one network; those of another than the default network
    # need other names.
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
    """Return the name of the rule with a launch's open ports."""
    return f"{labels.launch_tag(token)}-ports"


def is_gone(error: CloudError) -> bool:
    """Whether a refusal says that the named object does not exist."""
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
    """Return the description that identifies a rule, because firewall rules have no labels."""
    return f"{MARK} {labels.clean(owner)} {token}"


def _words(ports: tuple[int, int]) -> str:
    low, high = ports
    return str(low) if low == high else f"{low}-{high}"


def _ranges(rule: Mapping[str, Any] | None) -> set[str]:
    return {str(p) for entry in (rule or {}).get("allowed") or () for p in entry.get("ports") or ()}


def _plain(value: Any) -> Any:
    """Normalise a value for comparison.

    Google omits empty lists and false, and returns addresses for names.
    """
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v not in (None, [], "")}
    return False if value is None else value


def _explained(error: CloudError) -> CloudError:
    """Add the next step to the error for a network that does not exist."""
    if "network" not in error.failure.message or error.failure.cause is not Cause.PERMISSION:
        return error
    words = f"{error.failure.message}: name the network to use in NBPROV_GCP_NETWORK"
    return CloudError(Failure(Cause.PERMISSION, words, error.failure.code))
