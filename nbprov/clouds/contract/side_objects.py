"""Checks of what lies beside machines: keys, rules, disks, of one owner alone."""

from __future__ import annotations

from nbprov.model.launches import SideObject

from .checks import answers, check
from .subject import CloudUnderTest, eventually

FREED = 10.0
"""Seconds after which a double surely lets go of what an ended machine used."""


@check
def what_is_left_beside_machines_is_told(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    ids = subject.accepted(subject.cloud.submit(launch))
    subject.cloud.terminate(ids)
    subject.gone(launch.owner, ids)
    left = _of_one_launch(subject, launch.owner)
    odd = [o for o in left if (o.cloud, o.token) != (subject.cloud.name, launch.token)]
    assert odd == [], (
        f"objects of the launch {launch.token}: expected its cloud and token on each, got {odd}"
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
