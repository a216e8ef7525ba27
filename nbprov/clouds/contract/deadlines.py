"""Checks of time: no call takes longer than `base.py` says, sleeps, or waits in a loop."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count, product
from types import ModuleType

import pytest

from nbprov.clouds.base import CALL_SECONDS, CHECK_SECONDS, LIST_SECONDS, STOCK_SECONDS, Cloud
from nbprov.clouds.web.public_ip import VARIABLE
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import CreateOperation, Launch, SideObject

from .checks import check
from .relay import PAGE, RelayFault
from .subject import CloudUnderTest

SLACK = 10.0
"""Seconds that a busy machine may add to the limit of a call: far less than a hung server would."""
SHARE = 0.05
"""The part of their own limits that calls first have, so that most are through in a second."""
LIMITS = {
    "CALL_SECONDS": CALL_SECONDS,
    "CHECK_SECONDS": CHECK_SECONDS,
    "LIST_SECONDS": LIST_SECONDS,
    "STOCK_SECONDS": STOCK_SECONDS,
}
MOST_REPEATS = 2
"""How often one call may send the same request: more is a loop that waits."""
LEAST_SLEEP = 0.005
MOST_PAUSE = 1.0
"""Seconds that a call to a busy cloud may wait in all before it asks again."""
EXTRA_IDS = 4
"""How many ids of machines that do not exist are passed beside the real one."""
SLOW_SHARE = 0.25
SLOW = 0.9
"""A slow cloud answers each request after this part of what the whole call may take."""
EMPTY_PAGES = 5
MEASURED = "measured-call"
MOST_STEPS = 12
"""So many requests of a change are spoilt, each with all after it."""
BUSY = (None, RelayFault(429, b"", {"Retry-After": "0"}), RelayFault(503, PAGE))
"""What a call may meet: nothing odd, or a cloud that is busy."""
Call = Callable[[Cloud], object]


def calls(
    launch: Launch,
    machine: str,
    objects: Sequence[SideObject],
    operation: CreateOperation | None = None,
) -> dict[str, tuple[Call, float]]:
    """Return all calls of an adapter, with the seconds that each may take."""
    # Several machines: a call that gives each of them its whole time takes too long.
    ids = [machine, *(f"{machine}{number}" for number in range(EXTRA_IDS))]
    offer, ports = launch.candidate.offer, [(8888, 8890)]
    operation = operation or CreateOperation(offer.cloud, launch.token, machine)
    return {
        "check": (lambda cloud: cloud.check(), CHECK_SECONDS),
        "stock": (lambda cloud: cloud.stock([offer], 1), STOCK_SECONDS),
        "quote": (lambda cloud: cloud.quote(launch.candidate), CHECK_SECONDS),
        "list": (lambda cloud: cloud.list(launch.owner), LIST_SECONDS),
        "poll": (lambda cloud: cloud.poll(operation), LIST_SECONDS),
        "submit": (lambda cloud: cloud.submit(launch), CALL_SECONDS),
        "start": (lambda cloud: cloud.start(ids), CALL_SECONDS),
        "stop": (lambda cloud: cloud.stop(ids), CALL_SECONDS),
        "open_ports": (lambda cloud: cloud.open_ports(ids, ports), CALL_SECONDS),
        "close_ports": (lambda cloud: cloud.close_ports(ids, ports), CALL_SECONDS),
        "admit": (lambda cloud: cloud.admit(ids), CALL_SECONDS),
        "side_objects": (lambda cloud: cloud.side_objects(launch.owner), LIST_SECONDS),
        "console": (lambda cloud: cloud.console(machine), LIST_SECONDS),
        "terminate": (lambda cloud: cloud.terminate(ids), CALL_SECONDS),
        "remove": (lambda cloud: cloud.remove(objects), CALL_SECONDS),
    }


def changes(subject: CloudUnderTest) -> dict[str, Callable[[], Call]]:
    """Return what makes each change with several steps, all of which are left to do."""
    can, numbers, owner = subject.cloud.capabilities, count(1), subject.launch().owner

    def submit() -> Call:
        # A new owner, for whom what launches share is made, too.
        launch = subject.launch(owner=f"owner-n{next(numbers)}")
        return lambda cloud: cloud.submit(launch)

    def made(owner: str) -> list[str]:
        return [*subject.accepted(subject.cloud.submit(subject.launch(owner=owner)))]

    def terminate() -> Call:
        ids = [*made(owner), *made(owner)]
        return lambda cloud: cloud.terminate(ids)

    def remove() -> Call:
        whose = f"owner-n{next(numbers)}"
        ids = made(whose)
        with contextlib.suppress(CloudError):  # an open port leaves more behind
            subject.cloud.open_ports(ids, [(9000, 9000)])
        subject.cloud.terminate(ids)
        subject.gone(whose, ids)
        objects = subject.cloud.side_objects(whose)
        return lambda cloud: cloud.remove(objects)

    def admit() -> Call:
        subject.set_environment({VARIABLE: f"198.51.100.{next(numbers)}"})
        return lambda cloud: cloud.admit([machine.id])

    def open_ports() -> Call:
        ports = [(9000 + next(numbers),) * 2]
        return lambda cloud: cloud.open_ports([machine.id], ports)

    def close_ports() -> Call:
        ports = [(9000 + next(numbers),) * 2]
        with contextlib.suppress(CloudError):  # RunPod opens ports at a create alone
            subject.cloud.open_ports([machine.id], ports)
        return lambda cloud: cloud.close_ports([machine.id], ports)

    found = {"submit": submit, "terminate": terminate, "remove": remove, "admit": admit}
    if can.ports:
        found |= {"open_ports": open_ports, "close_ports": close_ports}
    (machine,) = subject.running(replace(subject.launch(), ports=()))
    return found


def hung(subject: CloudUnderTest) -> RelayFault:
    """Return what happens to a request that has no answer, however long one waits."""
    slow = RelayFault(trickles=True)
    return slow if subject.bounds_answers else RelayFault(seconds=CALL_SECONDS * 10)


def modules_of(cloud: Cloud) -> list[ModuleType]:
    """Return the loaded modules of an adapter's package."""
    module = type(cloud).__module__
    inside = module.startswith("nbprov.clouds.")
    root = ".".join(module.split(".")[: 3 if inside else 1])
    return [m for name, m in [*sys.modules.items()] if name == root or name.startswith(f"{root}.")]


@contextlib.contextmanager
def shortened(cloud: Cloud, share: float = SHARE, limits: Iterable[str] = LIMITS) -> Iterator[None]:
    """Shorten these limits of `base.py` wherever this adapter's modules have imported them."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules_of(cloud):
            for name in limits:
                if isinstance(value := getattr(module, name, None), float):
                    patch.setattr(module, name, value * share)
        yield


@check
def no_call_takes_longer_than_it_says(subject: CloudUnderTest) -> None:
    relay = subject.relay
    (machine,) = subject.running(subject.launch())
    objects = subject.cloud.side_objects(machine.owner)
    late = calls(subject.launch(), machine.id, objects)
    everything = hung(subject)
    taken: dict[str, float] = {}
    for limit, seconds in LIMITS.items():
        # One at a time, so that a call that keeps to the limit of another call is late.
        asked = {name: one for name, one in late.items() if one[1] == seconds}
        with relay.scripted(lambda *_: everything), shortened(subject.cloud, limits=[limit]):
            taken |= _measured(subject, asked, most=seconds * SHARE + SLACK / 3)
    # A call with limits of its own, or with several in turn, is given all of its time.
    late = {
        name: late[name]
        for name, seconds in taken.items()
        if seconds > late[name][1] * SHARE + SLACK / 4
    }
    if not late:
        return
    with relay.scripted(lambda *_: everything):
        taken = _measured(subject, late, most=CALL_SECONDS + SLACK)
    over = {
        f"{name}: expected {late[name][1]:g} s, took {seconds:.1f} s or more"
        for name, seconds in taken.items()
        if seconds > late[name][1] + SLACK / 2
    }
    assert not over, f"calls without an answer took too long: {sorted(over)}"


@check
def a_change_ends_in_time_wherever_it_hangs(subject: CloudUnderTest) -> None:
    """The first request hangs in the check above, and a later one in this."""
    for name, prepared in changes(subject).items():
        call = prepared()
        with subject.relay.noted() as sent, contextlib.suppress(CloudError):
            call(subject.make())
        for number in range(1, min(len(sent), MOST_STEPS)):
            _hang(subject, name, prepared, number)


def _hang(subject: CloudUnderTest, name: str, prepared: Callable[[], Call], number: int) -> None:
    """Make a change whose requests hang after so many."""
    fault = hung(subject)

    def hangs(now: int, _: object) -> RelayFault | None:
        return fault if now >= number else None

    # An adapter with limits of its own, or on a busy machine, is given all of its time.
    for share in (SHARE, 1.0):
        for late in [one for one in threading.enumerate() if one.name == MEASURED]:
            late.join(SLACK)  # or what it still sends would pass for a request of this call
        call, limit = prepared(), CALL_SECONDS * share
        with (
            subject.relay.noted() as sent,
            subject.relay.scripted(hangs),
            shortened(subject.cloud, share),
            subject.shortened(share),
        ):
            seconds = _measured(subject, {name: (call, limit)}, most=limit + SLACK / 3)[name]
        if seconds <= limit + SLACK / 4 and len(sent) > number:
            return
    assert seconds <= limit + SLACK / 4, (
        f"{name}, whose request {number + 1} has no answer: expected {CALL_SECONDS:g} s, took"
        f" {seconds:.1f} s or more"
    )


@check
def a_call_ends_in_time_though_every_answer_is_slow(subject: CloudUnderTest) -> None:
    """Each answer comes in time: what a call may take is for all its requests together."""
    (machine,) = subject.running(subject.launch())
    for name, pages in (("submit", (100, 0)), ("list", (1, EMPTY_PAGES)), ("list", (100, 0))):
        subject.page(*pages)
        # An adapter with limits of its own is given all of its time.
        for share in (SLOW_SHARE, 1.0):
            call, limit = calls(subject.launch(), machine.id, ())[name]
            seconds = _slowly(subject, call, limit * share, share)
            if seconds <= limit * share + SLACK / 4:
                break
        else:
            raise AssertionError(
                f"{name}, each of whose requests is answered slowly: expected {limit:g} s in all,"
                f" took {seconds:.1f} s or more"
            )
    left = [one.id for one in subject.alive(machine.owner)]
    subject.cloud.terminate(left)
    subject.gone(machine.owner, left)


def _slowly(subject: CloudUnderTest, call: Call, limit: Seconds, share: float) -> Seconds:
    """Return what a call takes if each of its requests takes `SLOW` of the whole call's limit."""

    def late(*_: object) -> None:
        subject.relay.wait(limit * SLOW)

    with subject.relay.scripted(late), shortened(subject.cloud, share):
        return _measured(subject, {"it": (call, limit)}, most=limit + SLACK / 3)["it"]


def _measured(
    subject: CloudUnderTest, asked: dict[str, tuple[Call, float]], *, most: float
) -> dict[str, float]:
    """Make these calls at once, each with an adapter of its own; return what each took.

    What is not through in `most` seconds is left to end with the script.
    """
    began, taken = time.monotonic(), dict[str, float]()

    def one(name: str, call: Call, cloud: Cloud) -> None:
        with contextlib.suppress(Exception):
            call(cloud)
        taken[name] = time.monotonic() - began

    threads = [
        threading.Thread(target=one, args=(name, call, subject.make()), name=MEASURED, daemon=True)
        for name, (call, _) in asked.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + most - time.monotonic()))
    return {name: taken.get(name, time.monotonic() - began) for name in asked}


@check
def no_call_sleeps_or_waits_in_a_loop(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    more, booting = subject.launch(), subject.cloud.submit(subject.launch())
    objects = subject.cloud.side_objects(launch.owner)
    for fault in BUSY if subject.addresses else BUSY[:1]:
        for name, (call, _) in calls(more, machine.id, objects, booting).items():
            _one_that_waits_for_nothing(subject, name, call, fault)
    for name, prepared in changes(subject).items():
        steps = _one_that_waits_for_nothing(subject, name, prepared(), None)
        for number, fault in product(range(1, min(steps, MOST_STEPS)), BUSY[1:]):
            _one_that_waits_for_nothing(subject, name, prepared(), fault, after=number)
    left = [machine.id for machine in subject.alive(launch.owner)]
    subject.cloud.terminate(left)
    subject.gone(launch.owner, left)


def _one_that_waits_for_nothing(
    subject: CloudUnderTest, name: str, call: Call, fault: RelayFault | None, *, after: int = 0
) -> int:
    """Make a call whose requests meet this fault after so many; return how many it sent."""
    cloud, before = subject.make(), len(subject.relay.requests) if subject.addresses else 0
    met: AbstractContextManager[None] = contextlib.nullcontext()
    if fault:
        met = subject.relay.scripted(lambda number, _: fault if number >= after else None)
    with met, slept(cloud) as seconds, contextlib.suppress(Exception):
        call(cloud)
    what = f"{name}, answered by {fault} from request {after + 1} on," if fault else name
    most = MOST_PAUSE if fault else 0.0
    assert sum(seconds) <= most, f"{what} slept for {seconds} s: waiting is the engine's"
    sent = subject.relay.requests[before:] if subject.addresses else []
    if fault is None:
        lines = Counter(one.line for one in sent)
        often = [f"{k[0]} {k[1]}" for k, n in lines.items() if n > MOST_REPEATS]
        assert not often, f"{what} sent the same request more than twice: {often}"
    return len(sent)


@contextlib.contextmanager
def slept(cloud: Cloud) -> Iterator[list[float]]:
    """Yield the seconds that this thread sleeps, or waits for an event that does not come."""
    seconds: list[float] = []
    me, real, wait = threading.get_ident(), time.sleep, threading.Event.wait

    def sleep(duration: float) -> None:
        if threading.get_ident() == me and duration > LEAST_SLEEP:
            seconds.append(duration)
        real(duration)

    def waited(event: threading.Event, timeout: float | None = None) -> bool:
        came = wait(event, timeout)
        if timeout and not came and threading.get_ident() == me and timeout > LEAST_SLEEP:
            seconds.append(timeout)
        return came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        patch.setattr(threading.Event, "wait", waited)
        for module in modules_of(cloud):
            if getattr(module, "sleep", None) is real:
                patch.setattr(module, "sleep", sleep)
        yield seconds
