"""Checks of what a create is sent: each field of a launch that the cloud says it can honour."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from dataclasses import replace
from typing import Any

from nbprov.model.failures import CloudError
from nbprov.model.launches import Launch

from .checks import check, needs
from .creates import LATE, makes
from .relay import RelayedRequest
from .subject import CloudUnderTest

NAME, PORT = "zebra7", 7077
DISK_GB, LIFETIME = 317, 4740.0
DISKS = "|".join(str(DISK_GB * unit) for unit in (1, 1000, 1024, 1000**3, 1024**3))
"""The disk in GB, MB and bytes."""
LIFETIMES = "4740|79"
"""The lifetime in seconds and in minutes."""
_DIFFERENT = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{12,}\b")
"""Ids of requests and of what a launch made for itself."""
SOON = 0.5
"""Seconds after which the create of a check is too late."""


@check
def what_a_cloud_can_do_is_in_its_create(subject: CloudUnderTest) -> None:
    """A capability that is claimed and not acted on drops what a person asked for in silence."""
    can, plain = subject.cloud.capabilities, subject.launch(name=NAME)
    asked: dict[str, tuple[dict[str, Any], str]] = {
        "name": ({}, NAME),
        "disk_sizes": ({"disk_gb": DISK_GB}, DISKS),
        "ports": ({"ports": ((PORT, PORT),)}, str(PORT)),
        "own_timer": ({"terminate_after": LIFETIME}, LIFETIMES),
    }
    claimed = [name for name in asked if getattr(can, name, subject.labels)]
    fields = {key: value for name in claimed for key, value in asked[name][0].items()}
    sent = _order(subject, replace(plain, **fields))
    for name in claimed:
        assert re.search(rf"(?<![\w.])[\w-]*?(?:{asked[name][1]})(?!\d)", sent), (
            f"`{name}`: expected {asked[name][1]} in what a create sends, got {sent[-3000:]!r}"
        )


@check
def a_disk_tier_makes_another_create(subject: CloudUnderTest) -> None:
    tiers, plain = subject.cloud.capabilities.disk_tiers, subject.launch()
    needs(tiers, "disk_tiers is empty")
    _order(subject, plain)  # makes what launches share
    same = _order(subject, plain)
    needs(same == _order(subject, plain), "its creates differ by themselves")
    # One of several tiers may be what the cloud gives anyway.
    assert any(_order(subject, replace(plain, disk_tier=one)) != same for one in sorted(tiers)), (
        f"the tiers {sorted(tiers)} are claimed: expected other creates where they are asked for,"
        f" got the same: {same[-3000:]!r}"
    )


def _order(subject: CloudUnderTest, launch: Launch) -> str:
    """Return what a create of this launch sends, without what differs by launch."""
    launch = replace(launch, token=uuid.uuid4().hex)
    with subject.relay.noted() as sent:
        operation = subject.make().submit(launch)
    subject.cloud.terminate(subject.accepted(operation))
    orders = "\n".join(one.readable for one in sent if one.method != "GET")
    return _DIFFERENT.sub("", orders.replace(launch.token, "").replace(launch.token[:12], ""))


@check
def a_create_that_became_late_is_not_sent(subject: CloudUnderTest) -> None:
    """What comes before the create, such as the registration of a key, may take too long."""
    relay = subject.relay
    launch = subject.launch(owner="owner-late", answer_by=time.time() + SOON)

    def late(_: int, asked: RelayedRequest) -> None:
        if not makes(launch, asked):
            relay.wait(SOON)

    with relay.noted() as sent, relay.scripted(late), contextlib.suppress(CloudError):
        subject.make().submit(launch)
    is_first = not sent or makes(launch, sent[0])
    needs(not is_first, "a create is its first request: nothing can make it late")
    time.sleep(LATE)
    made = subject.alive(launch.owner)
    assert made == [], f"{made} was created after `answer_by`"
