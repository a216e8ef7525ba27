"""Causes of web answers, and the service's own message in JSON, XML, HTML or plain text."""

from __future__ import annotations

import codecs
import html
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.text.plain import one_line

from .proxies import BAD_PROXY, without_proxy_logins

CAUSES = {401: Cause.CREDENTIALS, 403: Cause.PERMISSION, 429: Cause.RATE_LIMIT}
MOST_WORDS = 300
MOST_READ = 8_000
"""Characters of a page or a text that are read; its title stands at its beginning."""
LEAST_SECRET = 6
"""Shorter secrets reveal nothing, and removing them would make a message unreadable."""
SECRET_NAMES = ("key", "token", "secret", "authorization", "password", "signature")
SPOKEN = (
    "message",
    "Message",
    "error_description",
    "detail",
    "title",
    "msg",
    "reason",
    "suggestion",
)
NESTED = ("error", "Error", "errors", "Errors", "fault", "details")

UNREACHABLE = "unreachable"
"""The code of a failure to open a connection at all."""
WEB_PAGE = "web-page"
"""The code of a web page in place of data: usually the login page of a hotel's or a company's
network."""
PROXY_LOGIN = str(int(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED))
"""The code of a proxy that requires a login."""
NOBODY = frozenset({UNREACHABLE, WEB_PAGE, PROXY_LOGIN, BAD_PROXY})
"""Codes of failures in which no service was reached: there is no network, or something on the way
answered."""
UNTRUSTED = "untrusted-certificate"
"""The code of a server whose certificate could not be verified: no request was sent."""
NO_HANDSHAKE = "no-handshake"
"""The code of a server with which no way to encrypt was agreed on: no request was sent."""
_UNVERIFIED = ("CERTIFICATE_VERIFY_FAILED", "doesn't match")
_HANDSHAKE = ("HANDSHAKE_FAILURE", "ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")
_UNOPENED = ("NameResolution", "NewConnectionError", "ConnectTimeout", "ProxyError")


def worth_another_try(status: int) -> bool:
    """Whether the same request may succeed in a moment."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def retry_after(value: str | None, *, now: datetime | None = None) -> Seconds | None:
    """Return the seconds that a `Retry-After` header asks for, given as a number or a date.

    None if it cannot be understood.

    Examples
    --------
    >>> retry_after("7"), retry_after("soon")
    (7.0, None)
    """
    text = (value or "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text, re.ASCII):
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def words_of(body: str) -> str:
    """Return the message in the body of a refusal: one line of at most `MOST_WORDS` characters.

    Empty if there is none.

    Examples
    --------
    >>> words_of('{"error": {"code": 7, "message": "API key not valid."}}')
    'API key not valid.'
    >>> words_of("<html><title>503 Slow down</title>")
    '503 Slow down'
    """
    text = body.strip()
    if text[:1] in ("{", "["):
        try:
            return _one_line(_spoken(json.loads(text)))
        except (ValueError, RecursionError):
            pass
    text = text[:MOST_READ]
    for tag in ("Message", "title", "h1"):
        if (inside := _inside(text, tag)) is not None:
            return _one_line(_unescaped(re.sub(r"<[^<>]*>", " ", inside)))
    return "" if text.startswith("<") else _one_line(text)


def _inside(text: str, tag: str) -> str | None:
    """Return what the first element of a name holds; None if there is none, or no end of it.

    Each step goes on where the one before ended. A body that is all beginnings of elements would
    take one pattern for the whole element minutes.
    """
    start = re.search(rf"<{tag}\b", text, re.IGNORECASE)
    begun = text.find(">", start.end()) + 1 if start else 0
    end = re.search(rf"</{tag}>", text[begun:], re.IGNORECASE) if begun else None
    return None if end is None else text[begun : begun + end.start()]


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # the number of a character has more digits than Python reads
        return text


def _spoken(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_spoken(item, depth + 1) for item in value[:3])))
    if not isinstance(value, dict):
        return ""
    for name in (*NESTED, *SPOKEN):
        if said := _spoken(value.get(name), depth + 1):
            return said
    return ""


def _one_line(text: str) -> str:
    return one_line(text, MOST_WORDS)


def secrets_in(*given: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the values sent under names such as `key` or `Authorization`, which no message may
    repeat.
    """
    found = []
    for mapping in given:
        for name, value in (mapping or {}).items():
            if any(word in name.lower() for word in SECRET_NAMES):
                found += [
                    part
                    for part in str(value).split()
                    if len(part) >= 6 and part.lower() not in ("bearer", "basic")
                ]
    return tuple(found)


def blotted(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these values."""
    for secret in secrets:
        text = text.replace(secret, "•••")
    return text


def host_of(url: str) -> str:
    """Return the host of an address for a message; the path and query may hold a key."""
    return urlsplit(url).netloc.rpartition("@")[2] or url.partition("?")[0]


def refusal(
    url: str, status: int, body: str, *, retry: Seconds | None = None, secrets: Iterable[str] = ()
) -> CloudError:
    """Return the error for an answer that is not a success."""
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return proxy_login(url)
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    said = words_of(blotted(body, secrets))
    message = f"{host_of(url)} answered {phrase}" + (f": {said}" if said else "")
    return CloudError(
        Failure(CAUSES.get(status, Cause.TRANSIENT), message, code=str(status), retry_after=retry)
    )


def broken(url: str, error: BaseException, *, secrets: Iterable[str] = ()) -> CloudError:
    """Return the error for a connection that failed, or an answer that ended early, in plain
    words.
    """
    host = host_of(url)
    inside = f"{type(error).__name__} {error}"
    if f"Tunnel connection failed: {PROXY_LOGIN}" in inside:
        return proxy_login(url)
    code = type(error).__name__
    if any(sign in inside for sign in _UNOPENED):
        code = UNREACHABLE
    elif is_before_request(inside):
        code = UNTRUSTED if any(sign in inside for sign in _UNVERIFIED) else NO_HANDSHAKE
    for sign, words in (
        ("Unable to connect to proxy", f"the proxy on the way to {host} could not be reached"),
        ("NameResolution", f"the name {host} could not be resolved: is this machine online?"),
        *((sign, f"the certificate of {host} could not be verified") for sign in _UNVERIFIED),
        *((sign, f"no way to encrypt was agreed on with {host}") for sign in _HANDSHAKE),
        ("Connection refused", f"{host} refused the connection"),
        ("refused", f"{host} refused the connection"),
        ("ProxyError", f"the proxy on the way to {host} refused or broke the connection"),
        ("ConnectTimeout", f"{host} could not be reached in time"),
        ("timed out", f"{host} stopped answering"),
        ("IncompleteRead", f"the answer of {host} ended early"),
        ("InvalidChunkLength", f"the answer of {host} ended early"),
        ("ended early", f"the answer of {host} ended early"),
        ("Connection broken", f"the answer of {host} ended early"),
        ("failed to decode it", f"the answer of {host} could not be decompressed"),
        ("RemoteDisconnected", f"{host} closed the connection without an answer"),
    ):
        if sign in inside:
            return CloudError(Failure(Cause.TRANSIENT, words, code=code))
    words = without_proxy_logins(blotted(inside, secrets))
    return CloudError(Failure(Cause.TRANSIENT, f"{host}: {_one_line(words)}", code=code))


def is_before_request(said: str) -> bool:
    """Whether an error of TLS belongs to the handshake, before which no request is sent.

    Any other may come with the answer, and so does one whose words fit both: `WRONG_VERSION_NUMBER`
    is what OpenSSL says of a server without TLS, and of a damaged record at any time.

    Examples
    --------
    >>> is_before_request("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    True
    >>> is_before_request("[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] bad record mac")
    False
    """
    return any(sign in said for sign in (*_UNVERIFIED, *_HANDSHAKE))


def proxy_login(url: str) -> CloudError:
    """Return the error for a proxy that requires a login."""
    return CloudError(
        Failure(
            Cause.PERMISSION,
            f"the proxy on the way to {host_of(url)} requires a login",
            code=PROXY_LOGIN,
        )
    )


def web_page(url: str) -> CloudError:
    """Return the error for a web page in place of data."""
    return CloudError(
        Failure(
            Cause.TRANSIENT,
            f"a web page came from {host_of(url)}: does this network ask for a login?",
            code=WEB_PAGE,
        )
    )


def is_page(start: bytes) -> bool:
    """Whether an answer that begins like this is a web page.

    Examples
    --------
    >>> is_page(b"\\n<!DOCTYPE html><title>Log in"), is_page(b"InstanceType,Price")
    (True, False)
    """
    return start.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"<"


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these secrets, line by line, because JSON writes breaks its own
    way.
    """
    lines = (line for secret in secrets for line in secret.splitlines())
    return blotted(text, (line for line in lines if len(line) >= LEAST_SECRET))
