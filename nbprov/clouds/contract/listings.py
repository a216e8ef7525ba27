"""Checks of listings: complete or an error, of one owner alone, with states that are true."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from nbprov.model.failures import Cause
from nbprov.model.launches import CreateOperation, Instance, InstanceState, PollResult, Refused

from .checks import changed, check, needs, objects, rows, strings
from .relay import PAGE, RelayedRequest, RelayFault
from .subject import CloudUnderTest, eventually

EMPTY_PAGES = 12
MOST_BROKEN = 6
"""So many first requests of a listing are spoilt, one after the other, and the last one."""
BROKEN: tuple[tuple[RelayFault, tuple[Cause, ...]], ...] = (
    (RelayFault(500, PAGE), (Cause.TRANSIENT,)),
    (RelayFault(429, b"", {"Retry-After": "0"}), (Cause.RATE_LIMIT, Cause.TRANSIENT)),
    (RelayFault(401, b""), ()),
    (RelayFault(403, b""), ()),
    (RelayFault(410, b""), ()),
    (RelayFault(404, b""), ()),
    (RelayFault(200, b""), (Cause.TRANSIENT, Cause.UNKNOWN)),
    (RelayFault(204, b""), (Cause.TRANSIENT, Cause.UNKNOWN)),
    (RelayFault(cut=True), (Cause.TRANSIENT, Cause.UNKNOWN)),
    (RelayFault(), (Cause.TRANSIENT, Cause.UNKNOWN)),
)
"""What may come in place of a page, and the causes that are true then (any, if none is named)."""
Spoil = Callable[[dict[str, Any], str], object]
LEFT_OUT: dict[str, Spoil] = {
    "is missing": lambda page, name: page.pop(name, None),
    "is null": lambda page, name: page.update({name: None}),
    "is missing, as all else is,": lambda page, _: page.clear(),
}
"""What may be the matter with a page that has no list."""
ODD_STATE = "moulting-9"
ODD_TYPE = b"type-nobody-knows"


@check
def an_owner_sees_only_their_own(subject: CloudUnderTest) -> None:
    mine, theirs = subject.launch(owner="owner-1"), subject.launch(owner="owner-12")
    (one,), (other,) = subject.running(mine), subject.running(theirs)
    assert {i.id for i in subject.cloud.list("owner-1")} == {one.id}
    assert {i.id for i in subject.cloud.list("owner-12")} == {other.id}
    assert subject.cloud.list("owner-3") == []
    assert subject.make().list("owner") == []


@check
def a_machine_that_names_no_owner_is_nobodys(subject: CloudUnderTest) -> None:
    """Machines that people made by hand are in the same listings."""
    launch, found = subject.launch(), list[int]()
    subject.running(launch)
    owner = launch.owner.encode()

    def unowned(_: int, body: bytes) -> bytes:
        for left, right in ((b'"', b'"'), (b">", b"<")):
            found.append(body.count(left + owner + right))
            body = body.replace(left + owner + right, left + right)
        return body

    with subject.relay.rewritten(unowned), subject.relay.noted() as sent:
        listed = subject.make().list(launch.owner)
    if any(launch.owner in one.readable for one in sent):
        # The cloud chose by owner; what it answers may then lack the label.
        listed = [one for one in listed if one.owner == launch.owner]
    needs(sum(found), "its listing does not have owners as values of their own")
    assert listed == [], f"expected no machine of {launch.owner}, whom none names; got {listed}"


@check
def a_machine_without_labels_breaks_no_listing(subject: CloudUnderTest) -> None:
    """People make machines by hand, which have none."""
    launch, changed = subject.launch(), list[bool]()
    (machine,) = subject.running(launch)

    def without(document: Any) -> None:
        for row in rows(document, machine.id):
            for labels in _labels(row, launch.owner):
                labels.clear()
                changed.append(True)

    listed = _listed_after(subject, without)
    needs(changed, "its listing is no JSON with labels under their names")
    assert [one for one in listed if one.owner == launch.owner] == [], listed


@check
def a_machine_that_lacks_a_field_is_listed_or_an_error(subject: CloudUnderTest) -> None:
    """A row that cannot be read and is skipped is a machine that bills and is shown to nobody."""
    launch, names = subject.launch(), set[str]()
    (machine,) = subject.running(launch)
    ours = {launch.owner, launch.token}

    def note(document: Any) -> None:
        for row in rows(document, machine.id):
            names.update(n for n, value in row.items() if not ours & {*strings(value)})

    _listed_after(subject, note)
    needs(names, "its listing is no JSON with a machine as one object")
    for name in sorted(names):

        def without(document: Any, name: str = name) -> None:
            for row in rows(document, machine.id):
                row.pop(name, None)

        try:
            listed = _listed_after(subject, without)
        except Exception as error:
            subject.cloud.classify(error)
            continue
        assert [one.id for one in listed] == [machine.id], (
            f"a machine whose {name!r} is missing: expected it in the listing, or an error; got"
            f" {listed}"
        )


@check
def a_page_without_its_list_is_an_error(subject: CloudUnderTest) -> None:
    """It tells of no machine, which is not to say that there is none."""
    needs(subject.tells_empty_lists, "it leaves empty lists out (`tells_empty_lists` is False)")
    launches = [subject.launch(), subject.launch(), subject.other_launch()]
    machines = [one for launch in launches if launch for one in subject.running(launch)]
    subject.page(1, 0)
    ids = sorted(one.id for one in machines)
    for machine in machines:
        names = set[str]()

        def note(document: Any, names: set[str] = names, id: str = machine.id) -> None:
            names.update(name for _, name in _lists(document, id))

        _listed_after(subject, note)
        needs(names, "its listing is no JSON with its machines under a name")
        for name, (how, spoil) in product(sorted(names), LEFT_OUT.items()):

            def without(
                document: Any, id: str = machine.id, name: str = name, spoil: Spoil = spoil
            ) -> None:
                for one in [one for one, held in _lists(document, id) if held == name]:
                    spoil(one, name)

            listed, polled = _seen_after(subject, without, machine.token)
            assert listed in (None, ids), (
                f"a page whose {name!r} {how}: expected an error or the machines {ids}, got the"
                f" list {listed}; a machine that a listing lacks counts as gone"
            )
            assert not isinstance(polled, Refused), (
                f"a page whose {name!r} {how}: `poll` of a create that is looked for there says"
                f" {polled}, but {machine.id} exists"
            )


def _seen_after(
    subject: CloudUnderTest, change: Callable[[Any], None], token: str
) -> tuple[list[str] | None, PollResult | None]:
    """List, and look for a create, while answers are changed so; None for what is an error."""
    listed, polled = None, None
    with contextlib.suppress(Exception):
        listed = sorted(one.id for one in _listed_after(subject, change))
    operation = CreateOperation(subject.cloud.name, token, "forgotten")
    with changed(subject.relay, change), contextlib.suppress(Exception):
        polled = subject.make().poll(operation)
    return listed, polled


def _lists(document: Any, machine: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each object and its key inside of which a document has this machine."""
    for one in objects(document):
        for name, value in one.items():
            if isinstance(value, dict | list) and any(rows(value, machine)):
                yield one, name


def _listed_after(subject: CloudUnderTest, change: Callable[[Any], None]) -> list[Instance]:
    """List while every document of the cloud is changed so."""
    with changed(subject.relay, change):
        return subject.make().list("owner-1")


def _labels(row: dict[str, Any], owner: str) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield what a row has its owner inside of: its labels, as an object or a list."""
    if owner in row.values():
        return  # a field of its own, which every machine has
    for value in row.values():
        if isinstance(value, dict | list) and owner in strings(value):
            yield value


@check
def a_listing_goes_through_every_page(subject: CloudUnderTest) -> None:
    made = {subject.running(subject.launch())[0].id for _ in range(3)}
    needs(subject.page(1, EMPTY_PAGES), "its listing has no pages (`page` returns False)")
    listed = {machine.id for machine in subject.make().list("owner-1")}
    assert listed == made, (
        f"machines in pages of one, after {EMPTY_PAGES} empty pages: expected {sorted(made)},"
        f" the listing has {sorted(listed)}"
    )
    subject.cloud.terminate(sorted(made))
    subject.gone("owner-1", sorted(made))


@check
def a_listing_that_breaks_anywhere_is_an_error(subject: CloudUnderTest) -> None:
    relay = subject.relay
    # Each place, and each page but the first, has a machine that a listing may lose.
    launches = [subject.launch(), subject.launch(), subject.other_launch()]
    machines = [one for launch in launches if launch for one in subject.running(launch)]
    owner, ids = machines[0].owner, sorted(one.id for one in machines)
    subject.page(1, 1)
    cloud = subject.make()
    with relay.noted() as sent:
        cloud.list(owner)
    assert sent, "`list` sent no request: a listing that is kept is not the truth"
    for number in sorted({*range(MOST_BROKEN), len(sent) - 1} & set(range(len(sent)))):
        for fault, causes in BROKEN:
            _listed_with(subject, ids, number, fault, causes, lasts=True)
        for fault, causes in BROKEN[:: len(BROKEN) // 2]:
            _listed_with(subject, ids, number, fault, causes, lasts=False)


def _listed_with(
    subject: CloudUnderTest,
    machines: list[str],
    number: int,
    fault: RelayFault,
    causes: tuple[Cause, ...],
    *,
    lasts: bool,
) -> None:
    """List while one request, and all after it if that `lasts`, are answered by this fault."""

    def spoil(now: int, _: RelayedRequest) -> RelayFault | None:
        return fault if now == number or (lasts and now > number) else None

    what = "half an answer" if fault.cut else f"{fault.status}" if fault.status else "no answer"
    what = f"{what} to request {number + 1} of a listing"
    with subject.relay.scripted(spoil):
        try:
            listed = sorted(one.id for one in subject.make().list("owner-1"))
        except Exception as error:
            failure = subject.cloud.classify(error)
            assert not causes or failure.cause in causes, (
                f"{what}: expected the cause {' or '.join(causes)}, got {failure}"
            )
            return
    assert listed == machines, (
        f"{what}: expected an error or the machines {machines}, got the list {listed};"
        " a machine that a listing lacks counts as gone"
    )


@check
def a_machine_in_any_place_is_listed_and_ended(subject: CloudUnderTest) -> None:
    first, other = subject.launch(), subject.other_launch()
    needs(other, "it has one region and one type (`other_launch` returns None)")
    assert other is not None
    places = [launch.candidate.offer for launch in (first, other)]
    assert places[0].region != places[1].region, "`other_launch` has to name another region"
    assert places[0].instance_type != places[1].instance_type, "and another type"
    made = [*subject.running(first), *subject.running(other)]
    for machine, offer in zip(made, places, strict=True):
        found = (machine.place, machine.instance_type)
        assert found == (offer.place, offer.instance_type), (
            f"the machine in {offer.place}: expected {offer.instance_type} there, got {found}"
        )
    ids = [machine.id for machine in made]
    listed = sorted(machine.id for machine in subject.make().list(first.owner))
    assert listed == sorted(ids), f"machines in two regions: expected {ids}, listed {listed}"
    for id in ids:
        subject.cloud.console(id)
    if subject.cloud.capabilities.stop:
        subject.cloud.stop(ids)
        for id in ids:
            subject.in_state(first.owner, id, InstanceState.STOPPED)
        subject.cloud.start(ids)
        for id in ids:
            subject.in_state(first.owner, id, InstanceState.RUNNING)
    subject.cloud.terminate(ids)
    subject.gone(first.owner, ids)
    assert subject.traces(ids) == [], "`terminate` of machines in two regions left some running"


@check
def a_machine_of_a_type_nobody_knows_is_listed(subject: CloudUnderTest) -> None:
    relay, found = subject.relay, list[int]()
    launches = [one for one in (subject.launch(), subject.other_launch()) if one is not None]
    machines = sorted(subject.running(one)[0].id for one in launches)
    kinds = b"|".join(re.escape(one.candidate.offer.instance_type.encode()) for one in launches)
    named = re.compile(rb'(?<=[">/])(' + kinds + rb')(?=["<])(?!"\s*:)')

    def renamed(_: int, body: bytes) -> bytes:
        body, count = named.subn(ODD_TYPE, body)
        found.append(count)
        return body

    with relay.rewritten(renamed):
        listed = sorted(one.id for one in subject.make().list(launches[0].owner))
    needs(sum(found), "its listing does not name the type as offers do")
    assert listed == machines, f"machines of new types: expected {machines}, listed {listed}"


@check
def a_young_machine_that_is_not_listed_yet_is_not_gone(subject: CloudUnderTest) -> None:
    subject.hide_young(0.5)
    launch = subject.launch()
    (made,) = subject.accepted(subject.cloud.submit(launch))
    seen: list[InstanceState] = []

    def shown() -> bool:
        seen.extend(i.state for i in subject.cloud.list(launch.owner))
        return bool(seen)

    eventually(shown, "a listing")
    assert InstanceState.GONE not in seen
    subject.in_state(launch.owner, made, InstanceState.RUNNING)


@check
def a_state_nobody_knows_is_unknown_and_billed(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    needs(subject.show_state(machine.id, ODD_STATE), "`show_state` returns False")
    shown = [i for i in subject.cloud.list(launch.owner) if i.id == machine.id]
    assert [i.state for i in shown] == [InstanceState.UNKNOWN], (
        f"a machine in the state {ODD_STATE!r}: expected one that is unknown, got {shown}"
    )


@check
def every_state_that_bills_is_billed(subject: CloudUnderTest) -> None:
    needs(subject.billed_states, "`billed_states` names no state of the cloud's documentation")
    launch = subject.launch()
    (machine,) = subject.running(launch)
    for state in subject.billed_states:
        needs(subject.show_state(machine.id, state), "`show_state` returns False")
        shown = [i.state for i in subject.cloud.list(launch.owner) if i.id == machine.id]
        assert len(shown) == 1, f"a machine in the billed state {state!r} is not listed"
        assert shown[0] not in (InstanceState.STOPPED, InstanceState.GONE), (
            f"the cloud bills in {state!r}: expected a state that is billed, got {shown[0]}"
        )
        leaves = shown[0] in (InstanceState.STOPPING, InstanceState.ENDING)
        assert state in subject.passing_states or not leaves, (
            f"a machine in {state!r} is shown as {shown[0]}, so that nobody ends it: expected"
            " another state, or that `passing_states` names it"
        )
