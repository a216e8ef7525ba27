"""Actions on machines by their ids: end, stop, start, open ports, read the console."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbprov.clouds.aws.account.clients import ASK, CREATE, AwsAccount
from nbprov.clouds.aws.account.parallel_calls import call_each
from nbprov.clouds.aws.errors import NOT_SEEN
from nbprov.clouds.aws.instances.listing import InstanceListing, not_ours_to_see
from nbprov.clouds.aws.instances.states import ssh_port, state_of, tags_of
from nbprov.clouds.aws.network.security_groups import (
    Ports,
    SecurityGroups,
    covered,
    group_name,
    without,
)
from nbprov.clouds.base import SSH_PORT_LABEL
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import InstanceState

CHANGE_SECONDS: Seconds = 15.0
"""How long the regions of one action may take together. With the search for unknown ids before it,
the action stays under a call's 30 s."""
LOOK_SECONDS: Seconds = 12.0
"""When a sequence of calls begins no further one: the last call may take 17 s."""
CONSOLE_SECONDS: Seconds = 3.0
"""The same bound for reading the console, which has a listing's 20 s."""
PROTECTED = "OperationNotPermitted"
_UP = (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)
_GONE = (InstanceState.ENDING, InstanceState.GONE)


class AwsInstanceActions:
    """Actions on machines by their ids, in whatever region they are."""

    def __init__(
        self, session: AwsAccount, security_groups: SecurityGroups, listing: InstanceListing
    ) -> None:
        self._session = session
        self._security_groups = security_groups
        self._listing = listing

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines.

        Those that are gone are skipped; ids that EC2 does not know yet are an error.
        """
        self._each(ids, self._terminate)

    def stop(self, ids: Sequence[str]) -> None:
        """Stop the machines that are up."""
        self._each(ids, self._stop)

    def start(self, ids: Sequence[str]) -> None:
        """Start the stopped machines, after the states of all were read."""
        with self._session.within(LOOK_SECONDS):
            placed = self._listing.by_region(ids)
            rows = {region: self._listing.by_id(region, some) for region, some in placed.items()}
        states = {str(r["InstanceId"]): state_of(r) for found in rows.values() for r in found}
        for one in ids:
            state = states.get(one, InstanceState.GONE)
            if state in _GONE:
                raise CloudError(
                    Failure(
                        Cause.NOT_OFFERED,
                        f"{one} is gone and cannot be started",
                        "InvalidInstanceID.NotFound",
                    )
                )
            if state is InstanceState.STOPPING:
                raise CloudError(
                    Failure(Cause.TRANSIENT, f"{one} is still stopping", "IncorrectInstanceState")
                )
        for region, found in rows.items():
            stopped = [str(r["InstanceId"]) for r in found if state_of(r) is InstanceState.STOPPED]
            if stopped:
                # One attempt only: a capacity refusal is a 5xx, and retries are the engine's.
                self._session.call(region, "StartInstances", CREATE, InstanceIds=stopped)

    def open_ports(self, ids: Sequence[str], ports: Sequence[Ports]) -> None:
        """Open ports in the security group of each machine's launch.

        The group is created and attached to machines that lack it.
        """
        wanted = covered(ports)
        with self._session.within(LOOK_SECONDS):
            for region, row in self._rows(ids):
                tags, groups = (
                    tags_of(row),
                    [str(g["GroupId"]) for g in row.get("SecurityGroups", [])],
                )
                some = without(wanted, ssh_port(tags.get(SSH_PORT_LABEL, "")))
                if not some:
                    continue
                mine = self._security_groups.for_ports(
                    region,
                    str(row["VpcId"]),
                    tags.get("nbprov-owner", ""),
                    tags.get("nbprov-token", ""),
                    some,
                )
                if mine not in groups:
                    self._session.call(
                        region,
                        "ModifyInstanceAttribute",
                        InstanceId=row["InstanceId"],
                        Groups=[*groups, mine],
                    )

    def close_ports(self, ids: Sequence[str], ports: Sequence[Ports]) -> None:
        """Close the ports that `open_ports` or the launch opened."""
        wanted = covered(ports)
        with self._session.within(LOOK_SECONDS):
            for region, row in self._rows(ids):
                if group := _own_group(row):
                    self._security_groups.close(
                        region,
                        group,
                        without(wanted, ssh_port(tags_of(row).get(SSH_PORT_LABEL, ""))),
                    )

    def admit(self, ids: Sequence[str]) -> bool:
        """Admit this computer's address to the machines' groups; return whether a rule changed."""
        groups: dict[tuple[str, str, str], set[int]] = {}
        with self._session.within(LOOK_SECONDS):
            for region, row in self._rows(ids):
                tags = tags_of(row)
                owner, port = tags.get("nbprov-owner", ""), ssh_port(tags.get(SSH_PORT_LABEL, ""))
                shared = next(
                    (
                        str(g["GroupId"])
                        for g in row.get("SecurityGroups", [])
                        if g.get("GroupName") == group_name(owner)
                    ),
                    "",
                )
                if shared:
                    groups.setdefault((region, shared, owner), set()).add(port)
            changed = False
            for (region, group, owner), ports in groups.items():
                changed |= self._security_groups.admit(region, group, owner, ports)
            return changed

    def console(self, instance_id: str) -> str:
        """Return what the machine wrote to its console.

        Empty if there is nothing or the machine is gone.
        """
        with self._session.within(CONSOLE_SECONDS):
            for region in self._listing.by_region([instance_id]):
                try:
                    answer = self._session.call(
                        region, "GetConsoleOutput", InstanceId=instance_id, Latest=True
                    )
                except CloudError as error:
                    if error.failure.code in NOT_SEEN:
                        return ""
                    if not error.failure.code.startswith("Unsupported"):
                        raise
                    # Only Nitro machines give the latest output; others give what they wrote at
                    # boot.
                    answer = self._session.call(region, "GetConsoleOutput", InstanceId=instance_id)
                return str(answer.get("Output") or "")
        return ""

    # ------------------------------------------------------------ one region's part

    def _each(self, ids: Sequence[str], change: Callable[[str, Sequence[str]], None]) -> None:
        """Act in all regions at once; a failure in one does not prevent the others."""
        away = self._listing.away(ids)
        placed = self._listing.by_region([one for one in ids if one not in away])
        _, bad = call_each(placed, lambda region: change(region, placed[region]), CHANGE_SECONDS)
        if bad:
            raise next(iter(bad.values()))
        for one, note in away.items():
            raise CloudError(
                Failure(Cause.CREDENTIALS, f"{one} was {not_ours_to_see(note)}", "OtherAccount")
            )

    def _rows(self, ids: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """Return the machines that are not gone, with their regions."""
        placed = self._listing.by_region(ids)
        return [
            (region, row)
            for region, some in placed.items()
            for row in self._listing.by_id(region, some)
            if state_of(row) not in _GONE
        ]

    def _terminate(self, region: str, ids: Sequence[str]) -> None:
        try:
            self._session.call(region, "TerminateInstances", InstanceIds=[*ids])
            return
        except CloudError as error:
            # EC2 refuses the whole request for one unknown id, or for one machine that is protected
            # from termination.
            if error.failure.code == PROTECTED and len(ids) > 1:
                self._one_by_one(region, ids)
                return
            if error.failure.code not in NOT_SEEN:
                raise
        there = [str(row["InstanceId"]) for row in self._listing.by_id(region, ids)]
        if there:
            self._session.call(region, "TerminateInstances", InstanceIds=there)
        unseen = [one for one in ids if one not in there and self._listing.is_young(one)]
        if unseen:
            words = (
                f"EC2 in {region} does not list {', '.join(unseen)} yet, which it created "
                "only just now: that does not mean that they are gone"
            )
            raise CloudError(Failure(Cause.TRANSIENT, words, "InvalidInstanceID.NotFound"))

    def _one_by_one(self, region: str, ids: Sequence[str]) -> None:
        """End the machines one by one; raise the first refusal after all were tried."""
        refused: CloudError | None = None
        for one in ids:
            try:
                self._terminate(region, [one])
            except CloudError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _stop(self, region: str, ids: Sequence[str]) -> None:
        rows = self._listing.by_id(region, ids)
        up = [str(row["InstanceId"]) for row in rows if state_of(row) in _UP]
        if up:
            self._session.call(region, "StopInstances", ASK, InstanceIds=up)


def _own_group(row: dict[str, Any]) -> str:
    """Return the group of the machine's own launch; empty if it has none."""
    tags = tags_of(row)
    name = group_name(tags.get("nbprov-owner", ""), tags.get("nbprov-token", "") or "-")
    return next(
        (str(g["GroupId"]) for g in row.get("SecurityGroups", []) if g.get("GroupName") == name), ""
    )
