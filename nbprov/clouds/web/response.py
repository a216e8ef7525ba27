"""A web response.

Read in a thread of its own, checked for completeness, and resumed if it breaks off.
"""

from __future__ import annotations

import queue
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from .error_text import PROXY_LOGIN, UNREACHABLE, broken, host_of, refusal, retry_after, secrets_in
from .proxies import unusable_proxy

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS: Seconds = 6.0
"""How long a connection may take to open: a reachable service answers in well under a second."""
READ_SECONDS: Seconds = 30.0
"""How long to wait between two pieces of an answer."""

PIECE_SECONDS: Seconds = 60.0
"""How long a piece of 64 kB may take, or the headers: 1 kB a second. A server that sends a byte now
and then would hold its caller for ever."""
WHOLE_SECONDS: Seconds = 3600.0
"""How long one response may take: 100 MB of prices at 30 kB a second."""

_CHUNK = 1 << 16
_AHEAD = 16
_GLANCE: Seconds = 0.1


class Stopped(Exception):
    """The caller stopped the work."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, which may be sent several times."""

    method: str
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, Any] | None = None
    body: Any = None
    auth: tuple[str, str] | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may repeat."""
        return secrets_in(self.headers, self.params) + tuple(
            word for word in self.auth or () if len(word) >= 6
        )


class IncompleteResponse(Exception):
    """A response did not arrive completely; it carries the error to raise once no attempt is left.

    `unreached` is the host that was not reached, because no connection opened or a page of
    something on the way came. Empty if it was reached.
    """

    def __init__(
        self, error: CloudError, pause: Seconds | None = None, *, unreached: str = ""
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause = pause
        self.unreached = unreached


def as_asked(request: Any) -> Any:
    """Leave the request unchanged.

    Without an `auth`, requests would use a .netrc entry in place of our own Authorization, and send
    it where we send none.
    """
    return request


class HttpResponse:
    """One response, read by a thread of its own, so that its caller can leave at any time.

    Parameters
    ----------
    stop
        When it is set, the caller gets `Stopped` and the thread ends.
    quiet
        The longest pause between two pieces of the body.
    by_line
        A piece ends with each line, so that none waits for what comes after it.
    """

    def __init__(
        self,
        stop: threading.Event,
        ask: HttpRequest,
        session: requests.Session,
        *,
        quiet: Seconds = PIECE_SECONDS,
        by_line: bool = False,
    ) -> None:
        self.status = 0
        self._quiet, self._by_line = quiet, by_line
        self._ask = ask
        self._stop = stop
        self._box: queue.Queue[Any] = queue.Queue(_AHEAD)
        self._left = threading.Event()
        self._end = time.monotonic() + WHOLE_SECONDS
        self._headers: Mapping[str, str] = {}
        threading.Thread(
            target=self._read, args=(session,), name="nbprov-http", daemon=True
        ).start()

    def __enter__(self) -> HttpResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Stop reading."""
        self._left.set()

    def header(self, name: str) -> str:
        """Return a header; empty if it is missing."""
        return self._headers.get(name) or ""

    def head(self) -> None:
        """Wait for the status and the headers."""
        response = self._next(PIECE_SECONDS)
        self.status, self._headers = response.status_code, response.headers

    def chunks(self) -> Iterator[bytes]:
        """Yield the body piece by piece. Raises `IncompleteResponse` if it ends early."""
        while (chunk := self._next(self._quiet)) is not None:
            yield chunk

    def refused(self) -> tuple[CloudError, Seconds | None]:
        """Return the error for a response that is not a success, and the pause that the service
        asks for.
        """
        body = bytearray()
        try:
            for chunk in self.chunks():
                body += chunk
                if len(body) >= _CHUNK:
                    break
        except IncompleteResponse:
            # The status decides; the message is what has arrived.
            pass
        pause = retry_after(self.header("Retry-After"))
        return refusal(
            self._ask.url,
            self.status,
            body.decode("utf-8", "replace"),
            retry=pause,
            secrets=self._ask.secrets,
        ), pause

    def _next(self, seconds: Seconds) -> Any:
        late = min(self._end, time.monotonic() + seconds)
        while not self._stop.is_set():
            try:
                item = self._box.get(timeout=_GLANCE)
            except queue.Empty:
                if time.monotonic() > late:
                    self.leave()
                    raise _too_slow(self._ask.url) from None
                continue
            if isinstance(item, BaseException):
                raise self._translated(item)
            return item
        self.leave()
        raise Stopped

    def _translated(self, error: BaseException) -> BaseException:
        import requests
        import urllib3

        url = self._ask.url
        if (failure := unusable_proxy(error, scheme=urlsplit(url).scheme)) is not None:
            return CloudError(failure)
        if isinstance(
            error,
            (
                requests.exceptions.InvalidURL,
                requests.exceptions.MissingSchema,
                requests.exceptions.InvalidSchema,
            ),
        ):
            return CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    f"{url.partition('?')[0]!r} is not a web address",
                    code="bad-address",
                )
            )
        if not isinstance(
            error, (requests.RequestException, urllib3.exceptions.HTTPError, OSError)
        ):
            return error
        final = broken(url, error, secrets=self._ask.secrets)
        lasting = any(
            word in str(error) for word in ("NameResolutionError", "CERTIFICATE_VERIFY_FAILED")
        )
        if lasting or final.failure.code == PROXY_LOGIN:
            return final
        return IncompleteResponse(
            final, unreached=host_of(url) if final.failure.code == UNREACHABLE else ""
        )

    def _read(self, session: requests.Session) -> None:
        ask = self._ask
        try:
            with session.request(
                ask.method,
                ask.url,
                params=ask.params,
                headers=dict(ask.headers),
                json=ask.body,
                auth=ask.auth or as_asked,
                stream=True,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
            ) as response:
                self._put(response)
                pieces = self._lines(response) if self._by_line else response.iter_content(_CHUNK)
                for chunk in pieces:
                    if not self._put(chunk):
                        return
                _check_whole(response)
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _lines(self, response: requests.Response) -> Iterator[bytes]:
        """Yield lines with their ends; a long one comes in several pieces."""
        piece = bytearray()
        for byte in response.iter_content(1):
            if self._is_over():
                return
            piece += byte
            if byte == b"\n" or len(piece) >= _CHUNK:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece)

    def _is_over(self) -> bool:
        return self._left.is_set() or self._stop.is_set()

    def _put(self, item: Any) -> bool:
        while not self._is_over():
            try:
                self._box.put(item, timeout=_GLANCE)
                return True
            except queue.Full:
                continue
        return False


def _check_whole(response: requests.Response) -> None:
    """Check the length of a body: older urllib3 accepts one that is shorter than announced."""
    announced = response.headers.get("Content-Length", "")
    if "Transfer-Encoding" in response.headers:
        return
    if announced.isdigit() and response.status_code != 304 and response.raw.tell() < int(announced):
        raise OSError(f"ended early: {response.raw.tell()} of {announced} bytes")


class PartialBody:
    """The part of a body that was passed on already, so that a second response can continue from
    there.
    """

    def __init__(self) -> None:
        self.size = 0
        self._sum = 0
        self._validator = ""
        self._plain = True

    def asked_again(self, ask: HttpRequest) -> HttpRequest:
        """Return the request for the rest."""
        if not self.size or not self._plain:
            return ask
        again = {
            "Range": f"bytes={self.size}-",
            **({"If-Range": self._validator} if self._validator else {}),
        }
        return HttpRequest(ask.method, ask.url, {**ask.headers, **again})

    def from_the_start(self) -> bool:
        """Request the whole body from now on; returns False if that was so already.

        Used if there is nothing behind what was passed on, although the response did not end
        properly.
        """
        before, self._plain = self._plain, False
        return before and self.size > 0

    def fresh(self, url: str, answer: HttpResponse) -> Iterator[bytes]:
        """Yield the new bytes of a response; raises an error if the document changed meanwhile."""
        etag = answer.header("ETag")
        if not self.size:
            self._validator = (
                etag if etag and not etag.startswith("W/") else answer.header("Last-Modified")
            )
            self._plain = answer.header("Content-Encoding") in ("", "identity")
        start = (
            re.match(r"bytes (\d+)-", answer.header("Content-Range"))
            if answer.status == 206
            else None
        )
        skip = self.size - int(start[1]) if start else self.size
        if skip < 0 or (start and skip):
            raise _changed(url)
        skipped = 0
        for chunk in answer.chunks():
            old, new = chunk[:skip], chunk[skip:]
            skipped, skip = zlib.crc32(old, skipped), skip - len(old)
            if old and not skip and skipped != self._sum:
                raise _changed(url)
            if new:
                self.size += len(new)
                self._sum = zlib.crc32(new, self._sum)
                yield new
        if skip:
            raise _changed(url)


def _too_slow(url: str) -> CloudError:
    words = f"{host_of(url)} sends less than {_CHUNK / PIECE_SECONDS / 1000:.0f} kB a second"
    return CloudError(Failure(Cause.TRANSIENT, words, code="slow"))


def _changed(url: str) -> CloudError:
    return CloudError(
        Failure(
            Cause.TRANSIENT,
            f"the document at {host_of(url)} changed while it was read",
            code="changed",
        )
    )
