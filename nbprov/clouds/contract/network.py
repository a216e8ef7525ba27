"""Checks of what is open: ssh, from the caller's address, and what a spec asks for."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace

import pytest

from nbprov.clouds.web.public_ip import VARIABLE
from nbprov.model.failures import CloudError

from .checks import check, needs
from .subject import CloudUnderTest

ANYWHERE = re.compile(r"\d+\.\d+\.\d+\.\d+\\?/[0-7]\b|::\\?/0|::0\\?/0|\"\*\"")
"""Networks so wide that two or a hundred of them are everybody, too."""
PORTS = [(8888, 8890), (9100, 9100)]
MOVED = "198.51.100.23"


@check
def only_ssh_is_open_and_only_to_the_caller(subject: CloudUnderTest) -> None:
    relay = subject.relay
    with relay.noted() as sent:
        subject.running(replace(subject.launch(), ports=()))
    # Where the double tells the rules, a request may name every address to deny it something.
    wide = [one.readable[:500] for one in sent if ANYWHERE.search(one.readable)]
    assert subject.rules() is not None or not wide, (
        f"a launch without ports opens something to everybody: {wide}"
    )
    for network, first, last in subject.rules() or ():
        size = ipaddress.ip_network(network).num_addresses
        assert size == 1, f"ports {first}-{last} are open to {network}, not to one address"
        assert (first, last) == (22, 22), f"ports {first}-{last} are open; expected port 22 alone"


@check
def ports_are_opened_and_closed_as_often_as_one_likes(subject: CloudUnderTest) -> None:
    launch = replace(subject.launch(), ports=())
    ports = PORTS
    if subject.cloud.capabilities.ports and subject.launch().ports:
        launch, ports = subject.launch(), [*subject.launch().ports]
    (machine,) = subject.running(launch)
    before = subject.rules()
    opens, closes = subject.cloud.open_ports, subject.cloud.close_ports
    for call in (opens, opens, closes, closes):
        if not subject.cloud.capabilities.ports:
            with pytest.raises(CloudError):
                call([machine.id], ports)
            continue
        call([machine.id], ports)
        if before is None:
            continue
        added = [rule for rule in subject.rules() or () if rule not in before]
        if call == opens:
            assert {rule[1:] for rule in added} == {*ports}, f"opened {ports}: rules are {added}"
        else:
            assert added == [], f"closed {ports}: rules are still {added}"
        gone = [rule for rule in before if rule not in (subject.rules() or ())]
        assert gone == [], f"{ports} were opened or closed, and these rules are gone: {gone}"


@check
def a_new_address_is_admitted_in_place_of_the_old_one(subject: CloudUnderTest) -> None:
    """Only the rule for ssh follows this computer; opened ports stay open."""
    can = subject.cloud.capabilities
    needs(subject.rules() is not None, "launches change no rules (`rules` returns None)")
    (machine,) = subject.running(replace(subject.launch(), ports=()))
    if can.ports:
        subject.cloud.open_ports([machine.id], PORTS)
    before = subject.rules() or []
    subject.set_environment({VARIABLE: MOVED})
    assert subject.make().admit([machine.id]), f"now at {MOVED}: `admit` says no rule was changed"
    wanted = {(f"{MOVED}/32" if one[1:] == (22, 22) else one[0], *one[1:]) for one in before}
    after = {*(subject.rules() or ())}
    # A double may have its machines' ports open beside 22.
    odd = (wanted - after) | {one for one in after - wanted if one[0] != f"{MOVED}/32"}
    assert not odd, (
        f"the rules {before}, and this computer is now at {MOVED}: expected {sorted(wanted)}, got"
        f" {sorted(after)}"
    )
    assert not subject.make().admit([machine.id]), "`admit` twice: expected no change, it says one"
