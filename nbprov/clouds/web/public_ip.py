"""This computer's public address, the only one that a cloud's rules admit to port 22.

A home router, a company's gateway or a hotel's network gives all the computers behind it one public
address, which none of them knows, so a service outside has to be asked. `NBPROV_MY_ADDRESS`
replaces that: it holds an address or a network to admit (`203.0.113.7`, `203.0.113.0/24`,
`2001:db8::7`), or the http(s) address of a service that answers with the caller's address as plain
text.
"""

from __future__ import annotations

import ipaddress
import os
import threading
import time

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope

from .client import HttpClient, Stopped

__all__ = [
    "ADDRESS_SECONDS",
    "KEPT_SECONDS",
    "SERVICES",
    "VARIABLE",
    "Network",
    "my_address",
    "my_ipv4_address",
]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

VARIABLE = "NBPROV_MY_ADDRESS"
SERVICES = ("https://checkip.amazonaws.com/", "https://api.ipify.org/")
"""Asked in this order until one answers. Both answer over IPv4 alone: the machines of the clouds
that have rules are entered at IPv4 addresses."""
KEPT_SECONDS: Seconds = 300.0
"""How long an answer is used. The address changes when a laptop moves; then a connection fails and
it is looked up again."""
ADDRESS_SECONDS: Seconds = 6.0
"""How long the whole lookup may take, a fifth of a create's time; the services answer in well under
a second."""
_MOST_WORDS = 60

_lock = threading.Lock()
_kept: dict[str, tuple[float, Network]] = {}


def my_address(*, kept_for: Seconds = KEPT_SECONDS, fresh: bool = False) -> Network:
    """Return the network to admit.

    This computer's public address, or what `NBPROV_MY_ADDRESS` says.

    Parameters
    ----------
    kept_for
        The greatest age, in seconds, of a cached answer. The cache is shared by all clouds of this
        process.
    fresh
        Ask again in any case, after a connection failed.

    Raises
    ------
    CloudError
        `bad_request` if the variable is invalid; `transient` if no service answered within
        `ADDRESS_SECONDS`.

    Examples
    --------
    >>> os.environ["NBPROV_MY_ADDRESS"] = "203.0.113.7"
    >>> str(my_address())
    '203.0.113.7/32'
    >>> del os.environ["NBPROV_MY_ADDRESS"]
    """
    said = os.environ.get(VARIABLE, "").strip()
    is_service = said.startswith(("http://", "https://"))
    if said and not is_service:
        found = network_of(said)
        if found is None:
            message = (
                f"{VARIABLE} is {said[:_MOST_WORDS]!r}, which is no address, no network "
                "and no http(s) address of a service"
            )
            raise CloudError(Failure(Cause.BAD_REQUEST, message, code="bad-address"))
        return found
    services = (said,) if is_service else SERVICES
    key = " ".join(services)
    # One lookup at a time: three launches of a race share one request.
    with _lock:
        when, address = _kept.get(key, (0.0, None))
        # Wall time, because it continues while a laptop sleeps. If it was set back, the answer
        # counts as old.
        if address is not None and not fresh and 0 <= time.time() - when < kept_for:
            return address
        address = _asked(services)
        _kept[key] = (time.time(), address)
        return address


def my_ipv4_address(*, fresh: bool = False) -> Network:
    """Return the network to admit to machines that are entered at their IPv4 addresses.

    A rule for an IPv6 address would lock this computer out, since ssh comes from another one.

    Parameters
    ----------
    fresh
        Ask again in any case, after a connection failed.

    Raises
    ------
    CloudError
        As `my_address`; also `bad_request` if this computer is seen at an IPv6 address.
    """
    address = my_address(fresh=fresh)
    if address.version != 4:
        words = (
            "the machines of this cloud have IPv4 addresses, and this computer is seen at "
            f"{address}: set {VARIABLE} to its public IPv4 address"
        )
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "ipv6", Scope.ACCOUNT))
    return address


def network_of(text: str) -> Network | None:
    """Return the network that a text names, or None; an address is a network of one.

    An IPv4 address mapped into IPv6 becomes IPv4. The part after a `%` (the link) is ignored.

    Examples
    --------
    >>> str(network_of("198.51.100.9/24")), str(network_of("::ffff:198.51.100.9"))
    ('198.51.100.0/24', '198.51.100.9/32')
    >>> network_of("me") is None
    True
    """
    try:
        one = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        try:
            return ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            return None
    plain = one.ipv4_mapped if isinstance(one, ipaddress.IPv6Address) else None
    return ipaddress.ip_network(plain or one)


def _asked(services: tuple[str, ...]) -> Network:
    """Ask one service after another, within `ADDRESS_SECONDS` in all."""
    stop = threading.Event()
    alarm = threading.Timer(ADDRESS_SECONDS, stop.set)
    alarm.daemon = True
    alarm.start()
    problems = []
    try:
        http = HttpClient(stop=stop)
        for service in services:
            try:
                text = next(iter(http.lines(service)), "")
            except CloudError as error:
                problems.append(error.failure.message)
                continue
            except Stopped:
                problems.append(f"no answer within {ADDRESS_SECONDS:g} s")
                break
            address = network_of(text)
            if (
                address is not None
                and address.num_addresses == 1
                and not (address.is_unspecified or address.is_multicast)
            ):
                return address
            problems.append(f"{' '.join(text.split())[:_MOST_WORDS]!r} came in place of an address")
    finally:
        alarm.cancel()
    message = (
        f"this computer's public address could not be found ({'; '.join(problems)}): set "
        f"{VARIABLE} to it"
    )
    raise CloudError(Failure(Cause.TRANSIENT, message, code="no-address"))
