"""Checks of what lies beside machines: keys, rules, disks, of one owner alone."""

from __future__ import annotations

import re

from nbprov.model.launches import SideObject

from .checks import answers, check, needs
from .relay import PAGE, RelayedRequest, RelayFault
from .subject import CloudUnderTest, eventually

SEVERAL = 3
"""More launches than a page of a double is likely to have objects of."""
FREED = 10.0
"""Seconds after which a double surely lets go of what an ended machine used."""


@check
def what_is_left_beside_machines_is_told(subject: CloudUnderTest) -> None:
    launch, other = subject.launch(), subject.other_launch()
    launches = [launch, *(subject.launch() for _ in range(SEVERAL)), *([other] if other else [])]
    operations = [subject.cloud.submit(one) for one in launches]
    ids = [id for one in operations for id in subject.accepted(one)]
    subject.cloud.terminate(ids)
    subject.gone(launch.owner, ids)
    left = _of_one_launch(subject, launch.owner)
    tokens = {one.token for one in launches}
    odd = [o for o in left if o.cloud != subject.cloud.name or o.token not in tokens]
    assert odd == [], (
        f"objects of the launches {sorted(tokens)}: expected a token of these on each, got {odd}"
    )
    assert not left or {o.token for o in left} == tokens, (
        f"{len(tokens)} launches in two places: expected objects of each, got {left}"
    )

    def are_removed() -> bool:
        subject.cloud.remove(_of_one_launch(subject, launch.owner))
        return not _of_one_launch(subject, launch.owner)

    eventually(are_removed, f"{left} removed after the machine had ended", within=FREED)


def _of_one_launch(subject: CloudUnderTest, owner: str) -> list[SideObject]:
    return [o for o in subject.cloud.side_objects(owner) if not o.shared]


@check
def side_objects_of_others_are_left_alone(subject: CloudUnderTest) -> None:
    mine, theirs = subject.launch(owner="owner-1"), subject.launch(owner="owner-12")
    (one,), (other,) = subject.running(mine), subject.running(theirs)
    eventually(lambda: answers(other), "an ssh server")
    kept, rules = subject.cloud.side_objects("owner-12"), subject.rules()
    shown = [o for o in subject.cloud.side_objects("owner-1") if o in kept]
    assert shown == [], f"`side_objects` of owner-1 has those of owner-12: {shown}"
    assert subject.cloud.side_objects("owner-3") == [], "an owner without machines has none"
    subject.cloud.terminate([one.id])
    subject.gone("owner-1", [one.id])
    still = subject.cloud.remove(subject.cloud.side_objects("owner-1"))
    assert subject.cloud.side_objects("owner-1") == still, "`remove` returns what is still there"
    after = subject.cloud.side_objects("owner-12")
    assert after == kept, f"`remove` for owner-1: owner-12 had {kept} and now has {after}"
    assert answers(other), "the other owner's machine cannot be reached any more"
    if rules is not None:
        gone = [rule for rule in rules if rule not in (subject.rules() or ())]
        assert len(gone) <= len(rules) / 2, f"rules of the other owner are gone: {gone}"
    subject.cloud.remove(subject.cloud.side_objects("owner-1"))


@check
def what_launches_share_is_made_once_for_each_owner(subject: CloudUnderTest) -> None:
    """Such as an ssh key: looked up, told, and never another owner's."""
    orders: list[list[RelayedRequest]] = []
    for owner in ("owner-1", "owner-1", "owner-12"):
        with subject.relay.noted() as sent:
            operation = subject.make().submit(subject.launch(owner=owner))
        orders.append(sent)
        ids = subject.accepted(operation)
        if len(orders) == 1:
            first = _shared(subject, owner)
            subject.cloud.terminate(ids)
    changes = [sum(one.method != "GET" for one in sent) for sent in orders]
    assert first or changes[0] <= changes[1], (
        f"the first create of an owner sent {changes[0]} requests that change something and the"
        f" second {changes[1]}: expected what it made in `side_objects`"
    )
    assert _shared(subject, "owner-1") == first, "each create of an owner makes another of these"
    used = [
        (id, one.target)
        for id in first
        for one in orders[2]
        if re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", one.readable)
    ]
    assert used == [], f"a create of owner-12 used what is owner-1's: {used}"
    for owner in ("owner-1", "owner-12"):
        ids = tuple(one.id for one in subject.alive(owner))
        subject.cloud.terminate(ids)
        subject.gone(owner, ids)


def _shared(subject: CloudUnderTest, owner: str) -> list[str]:
    return sorted(one.id for one in subject.cloud.side_objects(owner) if one.shared)


@check
def side_objects_that_name_no_owner_are_not_listed(subject: CloudUnderTest) -> None:
    """A key called `laptop`, a rule that somebody made by hand."""
    launch, found = subject.launch(), list[int]()
    subject.accepted(subject.cloud.submit(launch))
    named = re.compile(rb'(?<=[">])[^"<>]*' + launch.owner.encode() + rb'[^"<>]*(?=["<])')

    def own(_: int, body: bytes) -> bytes:
        body, count = named.subn(b"laptop", body)
        found.append(count)
        return body

    with subject.relay.rewritten(own), subject.relay.noted() as sent:
        shown = subject.make().side_objects(launch.owner)
    needs(sum(found), "none of its side objects has the owner in a text of its own")
    if any(launch.owner in one.readable for one in sent):
        return  # the cloud chooses by owner: what it answers is the owner's
    assert shown == [], f"nothing there names {launch.owner}: got {shown}"


@check
def side_objects_that_cannot_be_asked_are_not_forgotten(subject: CloudUnderTest) -> None:
    relay, launch = subject.relay, subject.launch()
    subject.accepted(subject.cloud.submit(launch))
    known = subject.cloud.side_objects(launch.owner)
    needs(known, "its launches leave nothing beside their machines")
    for fault in (RelayFault(500, PAGE), RelayFault(429, b""), RelayFault(403, b""), RelayFault()):
        with relay.scripted(lambda *_, fault=fault: fault):
            try:
                told = subject.make().side_objects(launch.owner)
            except Exception as error:
                subject.cloud.classify(error)
                told = known
            try:
                left = subject.make().remove(known)
            except Exception as error:
                subject.cloud.classify(error)
                left = known
        assert told == known, f"{fault} for a listing: expected an error or {known}, got {told}"
        assert left == known, f"{fault} for `remove`: it says that {known} are gone"
