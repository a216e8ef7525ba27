"""Proxies of this computer: their logins stay out of messages, and a mistake in one is named.

Every client takes its proxy from variables such as `HTTPS_PROXY`. What it raises about one may
repeat the whole address, the password in it too, and says nothing of where the address stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from nbprov.model.failures import Cause, Failure, Scope

BAD_PROXY = "bad-proxy"
"""The code of a proxy whose address cannot be used: no request was sent."""
HIDDEN = "•••"
LEAST_PART = 4
"""A shorter part of a login reveals little, and removing it would make a message unreadable."""

_UNPARSED = re.compile(r"(Failed to parse:).*")
"""urllib3's words for an address that it cannot read, in which the login may be anywhere."""
_LOGIN = re.compile(r"://[^/\s@]+@")
_NOT_IN_A_LOGIN = re.compile(r"[/?#]")
_SIGNS = frozenset(
    {
        "InvalidProxyURL",
        "InvalidSchema",
        "LocationParseError",
        "LocationValueError",
        "ProxyConnectionError",
        "ProxyError",
        "ProxySchemeUnknown",
        "UnicodeEncodeError",
        "URLSchemeUnknown",
    }
)
"""Exceptions of requests, urllib3 and botocore with which the way through a proxy did not begin, or
which a wrong address of ours raises too."""
_UNREAD = re.compile(r"Invalid IPv6 URL|NFKC normalization|IPv4 or IPv6 address|in brackets")
"""Python's own words for an address that it cannot read, in a plain `ValueError`."""


def without_proxy_logins(text: str) -> str:
    """Return a message without the login of any proxy, nor what was read as an address.

    Examples
    --------
    >>> without_proxy_logins("cannot reach http://me:word@proxy:8080")
    'cannot reach http://•••@proxy:8080'
    >>> without_proxy_logins("Failed to parse: 'me:wo' is not a valid host or port")
    'Failed to parse: •••'
    """
    text = _UNPARSED.sub(rf"\1 {HIDDEN}", text)
    for part in sorted(set(_login_parts()), key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return _LOGIN.sub(f"://{HIDDEN}@", text)


def unusable_proxy(
    error: BaseException, *, scheme: str = "https", knows_socks: bool = True
) -> Failure | None:
    """Return the failure of a request for which this computer's proxy cannot be used.

    None for any other error. Nothing was sent, and nothing will be before the variable is mended,
    so the failure leaves out the whole cloud.

    Parameters
    ----------
    scheme
        That of the request's address.
    knows_socks
        Whether the client has SOCKS proxies at all.
    """
    chain = _chain(error)
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    is_unread = any(type(one) is ValueError and _UNREAD.search(str(one)) for one in chain)
    if not (is_unread or kinds & _SIGNS):
        return None
    for name, address in _proxies(scheme):
        if why := _fault(address, kinds, knows_socks=knows_socks):
            words = f"{name} cannot be used: {why}"
            return Failure(Cause.BAD_REQUEST, words, BAD_PROXY, Scope.ACCOUNT)
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and those that it came from."""
    found, waiting = list[BaseException](), [error]
    while waiting:
        one = waiting.pop()
        if any(one is known for known in found):
            continue
        found.append(one)
        near = (one.__cause__, one.__context__, *one.args, getattr(one, "reason", None))
        waiting += [other for other in near if isinstance(other, BaseException)]
    return found


def _login_parts() -> Iterator[str]:
    """Return the logins in all variables of proxies, whole and in parts.

    A login with a `/`, `?` or `#` is taken apart by whoever reads the address.
    """
    for name, value in os.environ.items():
        if not name.lower().endswith("_proxy") or name.lower() == "no_proxy":
            continue
        login, _, _ = value.rpartition("://")[2].rpartition("@")
        if not login:
            continue
        yield f"{login}@"
        password = login.partition(":")[2]
        for part in (login, password, *_NOT_IN_A_LOGIN.split(login)):
            for form in (part, unquote(part)):
                if len(form) >= LEAST_PART:
                    yield form


def _proxies(scheme: str) -> Iterator[tuple[str, str]]:
    """Return the proxy in use for a scheme, with the name under which a person finds it."""
    for wanted in (f"{scheme}_proxy", "all_proxy"):
        # A variable in lower case counts before the others, and ends them if it is empty.
        names = sorted((name for name in os.environ if name.lower() == wanted), reverse=True)
        if names and (address := os.environ[names[0]]):
            yield names[0], address
            return
    # This module takes long to load, and few errors are about a proxy.
    from urllib.request import getproxies

    # macOS and Windows have settings of their own.
    for key in (scheme, "all"):
        if address := getproxies().get(key, ""):
            yield f"the {key} proxy of this computer's settings", address
            return


def _fault(address: str, kinds: set[str], *, knows_socks: bool) -> str:
    """Say what is wrong with the address of a proxy; empty if nothing is."""
    from urllib3.util import parse_url

    scheme, has_scheme, rest = address.rpartition("://")
    scheme, login = scheme.lower() if has_scheme else "http", rest.rpartition("@")[0]
    if "UnicodeEncodeError" in kinds:
        return "" if unquote(login).isascii() else "its login may have only letters of ASCII"
    if scheme.startswith("socks"):
        if not knows_socks:
            return "this cloud's library knows no SOCKS proxy: name one with http://"
        return "" if find_spec("socks") else "a SOCKS proxy needs pip install pysocks"
    if scheme not in ("http", "https"):
        return "it has to begin with http://"
    if _NOT_IN_A_LOGIN.search(login):
        return "a /, ? or # in its login has to be written as %2F, %3F or %23"
    try:
        host = parse_url(f"{scheme}://{rest}").host and urlsplit(f"{scheme}://{rest}").hostname
    except ValueError:
        host = None
    return "" if host else "it is no address of a proxy, such as http://HOST:PORT"
