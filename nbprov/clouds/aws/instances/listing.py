"""Finding machines: by owner in all regions, by token or id in theirs."""

from __future__ import annotations

import builtins
import re
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.clouds.aws.account.parallel_calls import in_every_region
from nbprov.clouds.aws.instances import launch_index
from nbprov.clouds.aws.instances.states import CLOUD, KEY_TAG, instance_of
from nbprov.clouds.aws.network.subnets import Networks
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place

YOUNG: Seconds = 300.0
"""How long EC2 may not know an id that it issued; its pages on eventual consistency speak of
minutes."""
FIND_SECONDS: Seconds = 12.0
"""How long the search for ids of unknown region may take, of a call's 30 s."""
_ID = re.compile(r"i-[0-9a-f]{8}(?:[0-9a-f]{9})?$")
MOST_VALUES = 200
"""How many values one filter may have."""


class InstanceListing:
    """The machines of an account as EC2 lists them, and the regions where they were last seen."""

    def __init__(self, session: AwsAccount, networks: Networks) -> None:
        self._session = session
        self._networks = networks
        self._lock = threading.Lock()
        self._where: dict[str, str] = {}

    def of_owner(self, owner: str, seconds: Seconds) -> builtins.list[Instance]:
        """Return all machines that bear this owner's tag, in every region.

        Machines in another account than that of the current credentials have an unknown state.

        Raises
        ------
        CloudError
            If a single region could not be listed, or if the credentials changed meanwhile, because
            machines that are missing from a listing count as gone.
        """
        began, notes, session = time.monotonic(), launch_index.of_owner(owner), self._session.boto()
        beside = {note.region for note in notes} - set(self._session.regions())
        if beside:
            # Regions outside those in use: excluded since, newly enabled, or of another account.
            mine = self._session.account()
            beside &= {note.region for note in notes if note.account in ("", mine)}
        filters = [{"Name": "tag:nbprov-owner", "Values": [owner]}]
        found = self._in_all(filters, max(0.0, seconds - (time.monotonic() - began)), also=beside)
        if self._session.boto() is not session:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "the AWS credentials changed while machines were listed",
                    "changed",
                )
            )
        return [*found, *self._unseen(notes, found)]

    def _unseen(
        self, notes: Sequence[launch_index.IndexedLaunch], found: Sequence[Instance]
    ) -> builtins.list[Instance]:
        """Return machines of other accounts, which this listing cannot show.

        The records of this account's own launches are updated.
        """
        unseen: builtins.list[Instance] = []
        for note in notes:
            shown = [i for i in found if i.token == note.token]
            alive = [i.id for i in shown if i.state is not InstanceState.GONE]
            if not shown and note.account and note.account != self._session.account():
                unseen += map(partial(_elsewhere, note), note.ids)
            elif shown or note.is_late:
                launch_index.seen(
                    note, alive, note.account or (self._session.account() if shown else "")
                )
        return unseen

    def away(self, ids: Sequence[str]) -> dict[str, launch_index.IndexedLaunch]:
        """Return those of these machines that are in another account than the current one."""
        noted = {one: note for one, note in launch_index.of_ids(ids).items() if note.account}
        try:
            return {
                one: note for one, note in noted.items() if note.account != self._session.account()
            }
        except CloudError:
            # If the account cannot be determined, ending machines must still be possible.
            return {}

    def of_token(self, token: str, region: str, key: str = "") -> builtins.list[Instance]:
        """Return the machines of one launch, in its region or, if that is not known, in all.

        With a key, only the machines of that replacement create are returned.
        """
        filters = [{"Name": "tag:nbprov-token", "Values": [token]}]
        filters += [{"Name": f"tag:{KEY_TAG}", "Values": [key]}] if key else []
        return self._in_one(region, filters) if region else self._in_all(filters, FIND_SECONDS)

    def rows(self, region: str, filters: Sequence[dict[str, Any]]) -> builtins.list[dict[str, Any]]:
        """Return machines as EC2 describes them."""
        pages = [*self._session.pages(region, "DescribeInstances", Filters=[*filters])]
        if not all("Reservations" in page for page in pages):
            words = f"EC2 in {region} answered something that is not a list of machines"
            raise CloudError(Failure(Cause.TRANSIENT, words, "odd-answer"))
        found = [i for page in pages for r in page["Reservations"] for i in r["Instances"]]
        self.note(region, (str(i["InstanceId"]) for i in found))
        return found

    def by_id(self, region: str, ids: Sequence[str]) -> builtins.list[dict[str, Any]]:
        """Return the machines with these ids.

        The ids are given as a filter, because a request that names an unknown id is refused.
        """
        batches = [ids[at : at + MOST_VALUES] for at in range(0, len(ids), MOST_VALUES)]
        return [
            row
            for batch in batches
            for row in self.rows(region, [{"Name": "instance-id", "Values": [*batch]}])
        ]

    def note(self, region: str, ids: Iterable[str]) -> None:
        """Remember the region of machines."""
        with self._lock:
            self._where |= dict.fromkeys(ids, region)

    def is_young(self, instance_id: str) -> bool:
        """Whether EC2 issued this id so recently that it may not know it yet."""
        note = launch_index.of_ids([instance_id]).get(instance_id)
        return note is not None and time.time() - note.at < YOUNG

    def by_region(self, ids: Sequence[str]) -> dict[str, builtins.list[str]]:
        """Group these ids by region.

        Ids that no region knows are left out: they are gone, or never existed.
        """
        placed: dict[str, builtins.list[str]] = {}
        unplaced = []
        noted = launch_index.of_ids(ids)
        for one in dict.fromkeys(i for i in ids if _ID.match(i)):
            region = self._where.get(one)
            if region is None and one in noted:
                region = noted[one].region
            if region is None:
                unplaced.append(one)
            else:
                placed.setdefault(region, []).append(one)
        if unplaced:
            for region, rows in self._asked_in_every_region(unplaced).items():
                placed.setdefault(region, []).extend(rows)
        return placed

    def _asked_in_every_region(self, ids: Sequence[str]) -> dict[str, builtins.list[str]]:
        found = in_every_region(
            self._session,
            lambda region: [str(r["InstanceId"]) for r in self.by_id(region, ids)],
            FIND_SECONDS,
        )
        return {region: rows for region, rows in found.items() if rows}

    def _in_all(
        self, filters: Sequence[dict[str, Any]], seconds: Seconds, *, also: Iterable[str] = ()
    ) -> builtins.list[Instance]:
        found = in_every_region(
            self._session, lambda region: self._in_one(region, filters), seconds, also=also
        )
        return [instance for instances in found.values() for instance in instances]

    def _in_one(self, region: str, filters: Sequence[dict[str, Any]]) -> builtins.list[Instance]:
        return [
            instance_of(row, region, self._zone_id(region, row))
            for row in self.rows(region, filters)
        ]

    def _zone_id(self, region: str, row: dict[str, Any]) -> str:
        place = row.get("Placement", {})
        name = str(place.get("AvailabilityZone", ""))
        return str(place.get("AvailabilityZoneId") or "") or self._networks.zone_ids(region).get(
            name, name
        )


def not_ours_to_see(note: launch_index.IndexedLaunch) -> str:
    """Say why the state of a machine in another account is unknown."""
    return (
        f"made in the AWS account {note.account}, and the current credentials are of another "
        "account; "
        f"if that account no longer exists, delete clouds/aws/{note.token}.json in nbprov's home"
    )


def _elsewhere(note: launch_index.IndexedLaunch, instance_id: str) -> Instance:
    return Instance(
        cloud=CLOUD,
        id=instance_id,
        token=note.token,
        owner=note.owner,
        place=Place(CLOUD, note.region, ""),
        instance_type=note.instance_type,
        state=InstanceState.UNKNOWN,
        name=note.name,
        spot=note.spot,
        node=note.ids.index(instance_id),
        launched_at=note.at,
        reason=not_ours_to_see(note),
    )
