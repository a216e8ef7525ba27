"""The web client.

Plain requests with deadlines, polite retries, and a stop that is obeyed everywhere.

Retries are made here and not by urllib3's `Retry`, which was measured (requests 2.34, urllib3 2.8).
It does not repeat a streamed body that breaks off (one request, then `ChunkedEncodingError`) nor a
login page answered with 200. It sleeps through `Retry-After` in `time.sleep`, and its
`retry_after_max` shortens a long pause instead of giving up. `retried` would still be needed for
bodies, resumed lists and SDKs, so that two counters would multiply. docs/design/clouds.md has the
figures.
"""

from __future__ import annotations

import codecs
import copy
import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from .error_text import UNREACHABLE, blotted, host_of, is_page, web_page, worth_another_try
from .response import (
    CONNECT_SECONDS,
    READ_SECONDS,
    HttpRequest,
    HttpResponse,
    IncompleteResponse,
    PartialBody,
    Stopped,
)

if TYPE_CHECKING:
    import requests

__all__ = [
    "CONNECT_SECONDS",
    "MOST_PAUSE",
    "READ_SECONDS",
    "TRIES",
    "Downloaded",
    "HttpClient",
    "IncompleteResponse",
    "Stopped",
]

TRIES = 5
UNREACHED_TRIES = 2
"""Attempts for a host to which no connection opens, or that answers with a web page: without a
network, more attempts only make a person wait."""
MOST_PAUSE: Seconds = 60.0
"""A service that asks for a longer pause than this (Retry-After) is given up for now, with its own
message."""
T = TypeVar("T")
MOST_LINE = 16 << 20
"""The longest line of a text; beyond it the answer is not a text."""
MOST_JSON = 256 << 20
"""The most bytes of a JSON answer; no price list is larger."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A downloaded file: its size, its hash, and the validators of the answer."""

    size: int
    md5: str
    etag: str = ""
    last_modified: str = ""
    unchanged: bool = False


class HttpClient:
    """Requests of one caller. Safe to use from several threads.

    Parameters
    ----------
    stop
        When it is set, every call raises `Stopped` within a second.
    pause
        Sleeps between two attempts; tests give one that returns at once.

    Notes
    -----
    429 and 5xx answers, broken connections and bodies that end early (shorter than
    `Content-Length`, or a torn chunk) are tried again, `TRIES` times in all, after `Retry-After` or
    else 1, 2, 4, … s. The last error is a `CloudError` whose failure has the cause (credentials for
    401, permission for 403, rate_limit for 429, else transient), the status and the service's own
    message. A host that never answered is tried `UNREACHED_TRIES` times, and then no more by this
    object.
    """

    def __init__(
        self,
        *,
        stop: threading.Event | None = None,
        pause: Callable[[Seconds], object] | None = None,
    ) -> None:
        self._stop = stop or threading.Event()
        self._pause = pause or self._stop.wait
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._reached: set[str] = set()
        self._unreached: dict[str, Failure] = {}

    def stopped_by(self, stop: threading.Event) -> HttpClient:
        """Return this client with another stop. What it knows of hosts is shared."""
        other = copy.copy(self)
        other._stop = stop
        if self._pause == self._stop.wait:
            other._pause = stop.wait
        return other

    def json(
        self,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> Any:
        """GET a JSON document. An answer that is not JSON is `transient`."""
        return self.retried(
            lambda: self._document(HttpRequest("GET", url, headers or {}, params, auth=auth))
        )

    def post(
        self,
        url: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Any:
        """POST JSON and return JSON. For questions only, because it is tried again like a GET."""
        return self.retried(
            lambda: self._document(HttpRequest("POST", url, headers or {}, params, body))
        )

    def lines(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        seen: Callable[[int], object] | None = None,
    ) -> Iterator[str]:
        """Yield the lines of a large text answer as they arrive.

        `seen` is told the bytes received so far.

        A body that breaks off is requested again from there (`Range`) if the service supports it,
        else from the start, skipping what was yielded already.
        """
        decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        rest = ""
        with closing(
            self._resumed(
                HttpRequest("GET", url, {**(headers or {}), "Accept-Encoding": "identity"}), seen
            )
        ) as chunks:
            for chunk in chunks:
                *whole, rest = (rest + decode(chunk)).split("\n")
                if len(rest) > MOST_LINE:
                    raise _too_large(url, MOST_LINE)
                for line in whole:
                    yield line.removesuffix("\r")
        if rest := rest + decode(b"", True):
            yield rest.removesuffix("\r")

    def download(
        self,
        url: str,
        target: Path,
        *,
        etag: str = "",
        last_modified: str = "",
        most: int = 1 << 30,
        seen: Callable[[int], object] | None = None,
    ) -> Downloaded:
        """Download a file to `target`, which exists only once it is complete.

        If the validators still hold (304), the result is `unchanged` and no file is written.
        """
        headers = {
            name: value
            for name, value in (("If-None-Match", etag), ("If-Modified-Since", last_modified))
            if value
        }
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            return self.retried(
                lambda: self._saved(HttpRequest("GET", url, headers), target, part, most, seen)
            )
        finally:
            part.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise `Stopped` if the caller stopped the work: for long work without requests."""
        if self._stop.is_set():
            raise Stopped

    def retried(self, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, as often as a request is tried.

        It is called again if it raises `IncompleteResponse`, after the pause that this names. SDKs
        with clients of their own use it, so that one rule holds for all.
        """
        for number in range(TRIES):
            try:
                return attempt()
            except IncompleteResponse as broke:
                self._wait_or_raise(broke, number)
        raise AssertionError("the last try returns or raises")

    def _wait_or_raise(self, broke: IncompleteResponse, number: int) -> None:
        """Sleep before the next attempt, or raise the error of the last one."""
        seconds = broke.pause if broke.pause is not None else float(2**number)
        first_contact = broke.unreached and broke.unreached not in self._reached
        if (
            number + 1 >= (min(UNREACHED_TRIES, TRIES) if first_contact else TRIES)
            or seconds > MOST_PAUSE
        ):
            if first_contact:
                self._unreached[broke.unreached] = broke.error.failure
            raise broke.error from None
        self._pause(seconds)
        self.check()

    def _document(self, ask: HttpRequest) -> Any:
        body = bytearray()
        with self._open(ask) as answer:
            for chunk in answer.chunks():
                body += chunk
                if len(body) > MOST_JSON:
                    raise _too_large(ask.url, MOST_JSON)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            if is_page(bytes(body[:200])):
                raise IncompleteResponse(web_page(ask.url), unreached=host_of(ask.url)) from None
            start = blotted(bytes(body[:60]).decode("utf-8", "replace"), ask.secrets)
            message = (
                f"{host_of(ask.url)} gave an answer that is not JSON: {' '.join(start.split())!r}"
            )
            raise IncompleteResponse(
                CloudError(Failure(Cause.TRANSIENT, message, code="not-json"))
            ) from None

    def _saved(
        self,
        ask: HttpRequest,
        target: Path,
        part: Path,
        most: int,
        seen: Callable[[int], object] | None,
    ) -> Downloaded:
        with self._open(ask) as answer:
            etag, modified = answer.header("ETag"), answer.header("Last-Modified")
            if answer.status == 304:
                return Downloaded(
                    0, "", etag or ask.headers.get("If-None-Match", ""), modified, unchanged=True
                )
            size, digest = 0, hashlib.md5(usedforsecurity=False)
            with part.open("wb") as file:
                for chunk in answer.chunks():
                    size += len(chunk)
                    if size > most:
                        raise _too_large(ask.url, most)
                    digest.update(chunk)
                    file.write(chunk)
                    if seen:
                        seen(size)
                file.flush()
                os.fsync(file.fileno())
        part.replace(target)
        return Downloaded(size, digest.hexdigest(), etag, modified)

    def _resumed(self, ask: HttpRequest, seen: Callable[[int], object] | None) -> Generator[bytes]:
        """Yield the bytes of a body, resumed where it broke off."""
        given = PartialBody()
        for number in range(TRIES):
            try:
                with self._open(given.asked_again(ask)) as answer:
                    for chunk in given.fresh(ask.url, answer):
                        if seen:
                            seen(given.size)
                        yield chunk
                return
            except IncompleteResponse as broke:
                self._wait_or_raise(broke, number)
            except CloudError as error:
                if error.failure.code != "416" or number + 1 >= TRIES or not given.from_the_start():
                    raise

    def _open(self, ask: HttpRequest) -> HttpResponse:
        """Send a request and return its response once a good head has arrived.

        Raises `IncompleteResponse` if another attempt may help.
        """
        self.check()
        host = host_of(ask.url)
        if host in self._unreached:
            raise CloudError(self._unreached[host])
        answer = HttpResponse(self._stop, ask, self._requester())
        try:
            answer.head()
            if "html" not in answer.header("Content-Type"):
                self._reached.add(host)
            if answer.status < 300 or answer.status == 304:
                return answer
            error, pause = answer.refused()
        except CloudError as lasting:
            answer.leave()
            if lasting.failure.code != UNREACHABLE:
                raise
            if host in self._reached:
                raise IncompleteResponse(lasting, unreached=host) from None
            self._unreached[host] = lasting.failure
            raise
        except BaseException:
            answer.leave()
            raise
        answer.leave()
        if worth_another_try(answer.status):
            raise IncompleteResponse(error, pause)
        raise error

    def _requester(self) -> requests.Session:
        with self._lock:
            if self._session is None:
                import requests
                from requests.cookies import RequestsCookieJar

                self._session = requests.Session()
                self._session.headers["User-Agent"] = "nbprov"
                jar = RequestsCookieJar()
                jar.set_policy(_no_cookies())
                self._session.cookies = jar
            return self._session


def _no_cookies() -> Any:
    from http.cookiejar import DefaultCookiePolicy

    return DefaultCookiePolicy(allowed_domains=[])


def _too_large(url: str, most: int) -> CloudError:
    return CloudError(
        Failure(
            Cause.TRANSIENT,
            f"the answer of {host_of(url)} is larger than {most:,} bytes",
            code="too-large",
        )
    )
