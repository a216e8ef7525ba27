"""Checks of time: no call takes longer than `base.py` says, sleeps, or waits in a loop."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from nbprov.clouds.base import CALL_SECONDS, CHECK_SECONDS, LIST_SECONDS, STOCK_SECONDS, Cloud
from nbprov.model.launches import CreateOperation, Launch

from .checks import check
from .relay import RelayFault
from .subject import CloudUnderTest

SLACK = 10.0
"""Seconds that a busy machine may add to the limit of a call: far less than a hung server would."""
SHARE = 0.05
"""The part of their own limits that calls first have, so that most are through in a second."""
LIMITS = ("CALL_SECONDS", "CHECK_SECONDS", "LIST_SECONDS", "STOCK_SECONDS")
MOST_REPEATS = 2
"""How often one call may send the same request: more is a loop that waits."""
LEAST_SLEEP = 0.005
Call = Callable[[Cloud], object]


def calls(launch: Launch, machine: str) -> dict[str, tuple[Call, float]]:
    """Return all calls of an adapter, with the seconds that each may take."""
    # Two machines: a call that gives each of them its whole time takes too long.
    ids, offer, ports = [machine, f"{machine}0"], launch.candidate.offer, [(8888, 8890)]
    operation = CreateOperation(offer.cloud, launch.token, machine)
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
    }


def modules_of(cloud: Cloud) -> list[ModuleType]:
    """Return the loaded modules of an adapter's package."""
    module = type(cloud).__module__
    inside = module.startswith("nbprov.clouds.")
    root = ".".join(module.split(".")[: 3 if inside else 1])
    return [m for name, m in [*sys.modules.items()] if name == root or name.startswith(f"{root}.")]


@contextlib.contextmanager
def shortened(cloud: Cloud) -> Iterator[None]:
    """Shorten the limits of `base.py` wherever this adapter's modules have imported them."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules_of(cloud):
            for name in LIMITS:
                if isinstance(value := getattr(module, name, None), float):
                    patch.setattr(module, name, value * SHARE)
        yield


@check
def no_call_takes_longer_than_it_says(subject: CloudUnderTest) -> None:
    relay = subject.relay
    (machine,) = subject.running(subject.launch())
    late = calls(subject.launch(), machine.id)
    everything = RelayFault(seconds=CALL_SECONDS * 10)
    with relay.scripted(lambda *_: everything), shortened(subject.cloud):
        taken = _measured(subject, late, most=CALL_SECONDS * SHARE + SLACK / 3)
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
def a_create_ends_in_time_wherever_it_hangs(subject: CloudUnderTest) -> None:
    relay = subject.relay
    with relay.noted() as sent:
        subject.make().submit(subject.launch())
    hung, asked = RelayFault(seconds=CALL_SECONDS * 10), subject.launch()
    submit: dict[str, tuple[Call, float]] = {
        "submit": (lambda cloud: cloud.submit(asked), CALL_SECONDS)
    }
    # The first request hangs in the check above.
    for number in sorted({1, len(sent) - 1} - {0, -1}):

        def hangs(now: int, _: object, number: int = number) -> RelayFault | None:
            return hung if now >= number else None

        with relay.scripted(hangs), shortened(subject.cloud):
            seconds = _measured(subject, submit, most=CALL_SECONDS * SHARE + SLACK / 3)["submit"]
        if seconds > CALL_SECONDS * SHARE + SLACK / 4:
            with relay.scripted(hangs):
                seconds = _measured(subject, submit, most=CALL_SECONDS + SLACK)["submit"]
        assert seconds <= CALL_SECONDS + SLACK / 2, (
            f"a create whose request {number + 1} has no answer: expected {CALL_SECONDS:g} s, took"
            f" {seconds:.1f} s or more"
        )


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
        threading.Thread(target=one, args=(name, call, subject.make()), daemon=True)
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
    more = subject.launch()
    for name, (call, _) in calls(more, machine.id).items():
        cloud, before = subject.make(), len(subject.relay.requests) if subject.addresses else 0
        with slept(cloud) as seconds, contextlib.suppress(Exception):
            call(cloud)
        assert not seconds, f"{name} slept for {seconds} s: waiting is the engine's"
        if subject.addresses:
            lines = Counter(one.line for one in subject.relay.requests[before:])
            often = [f"{k[0]} {k[1]}" for k, n in lines.items() if n > MOST_REPEATS]
            assert not often, f"{name} sent the same request more than twice: {often}"
    left = [machine.id for machine in subject.alive(launch.owner)]
    subject.cloud.terminate(left)
    subject.gone(launch.owner, left)


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
