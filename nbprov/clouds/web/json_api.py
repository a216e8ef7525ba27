"""One provider's HTTP API with JSON documents, asked in bounded calls that are never repeated.

What every adapter of such an API needs: a deadline for the whole call, all pages of a list or an
error, a limit of size, the difference between a request that was lost and one that was never sent,
and messages without secrets.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Protocol

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from .error_text import (
    NO_HANDSHAKE,
    NOBODY,
    UNTRUSTED,
    WEB_PAGE,
    host_of,
    is_page,
    retry_after,
    web_page,
    without,
)
from .response import HttpRequest, HttpResponse, IncompleteResponse, Stopped

MOST_BODY = 64 << 20
"""The most bytes of an answer: a thousand machines are listed in a few megabytes."""
MOST_PAGES = 1000
"""The most pages of a list: a service that repeats itself must not hold a call for ever."""
UNSENT = frozenset({*NOBODY, UNTRUSTED, NO_HANDSHAKE, "bad-address"})
"""Codes of failures before anything was sent to the service: nothing was created."""
STATUS: dict[int, Cause] = {
    HTTPStatus.UNAUTHORIZED: Cause.CREDENTIALS,
    HTTPStatus.PAYMENT_REQUIRED: Cause.BALANCE,
    HTTPStatus.FORBIDDEN: Cause.PERMISSION,
    HTTPStatus.TOO_MANY_REQUESTS: Cause.RATE_LIMIT,
}


class ReadsRefusal(Protocol):
    """Names the cause of an answer that is no success: the `failure_of` of a cloud's `errors.py`.

    The text has no secret any more. With `creates` the request may have made a machine.
    """

    def __call__(
        self, status: int, body: str, pause: Seconds | None, /, *, path: str, creates: bool
    ) -> Failure: ...


def cause_of_status(status: int, *, creates: bool) -> Cause:
    """Return the cause of a status without a known code.

    Examples
    --------
    >>> cause_of_status(502, creates=True), cause_of_status(429, creates=True)
    (<Cause.UNKNOWN_OUTCOME: 'unknown_outcome'>, <Cause.RATE_LIMIT: 'rate_limit'>)
    """
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
    return STATUS.get(status, Cause.UNKNOWN)


class DeadlineEvent(threading.Event):
    """An event that is set from an instant on; the reader of an answer and its caller look at it.

    Parameters
    ----------
    seconds
        The time from now until it is set.
    """

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        """Whether the time is over."""
        return super().is_set() or time.monotonic() >= self._end

    def left(self, most: Seconds = float("inf")) -> Seconds:
        """Return the seconds left, at most `most` and at least a tenth.

        After the deadline a request is still sent, and its missing answer is the error.
        """
        return max(0.1, min(most, self._end - time.monotonic()))


@dataclass(frozen=True, slots=True)
class JsonApi:
    """The API of one account.

    Attributes
    ----------
    base
        The address before the paths, without a slash at its end.
    key
        The secret that no message may repeat. It is sent as a bearer token.
    failure_of
        Names the cause of a refusal.
    headers
        More headers, or others in place of the bearer token.
    most_body
        The most bytes of an answer.
    """

    base: str
    key: str = field(repr=False)
    failure_of: ReadsRefusal
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    most_body: int = MOST_BODY

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        seconds: Seconds,
        creates: bool = False,
        secrets: Iterable[str] = (),
    ) -> Any:
        """Send one request and return its document; None if the answer is 204 or a change's empty.

        Parameters
        ----------
        seconds
            When the call gives up.
        creates
            A lost answer may have created a machine, so its cause is `unknown_outcome`, else
            `transient`.
        secrets
            Values that no message may repeat, besides the key.

        Raises
        ------
        CloudError
            With the cause that `failure_of` gives it.
        """
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json"}
        ask = HttpRequest(method, f"{self.base}{path}", {**headers, **self.headers}, params, body)
        lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
        hidden = (self.key, *(line for one in secrets for line in one.splitlines()))
        status, pause, raw = self._exchanged(ask, seconds, lost)
        if status >= HTTPStatus.BAD_REQUEST:
            text = without(raw.decode("utf-8", "replace"), hidden)
            failure = self.failure_of(status, text, pause, path=path, creates=creates)
            raise CloudError(replace(failure, message=without(failure.message, hidden)))
        if not raw.strip() and method != "GET" and not creates:
            return None
        return self._document(raw, lost)

    def pages(
        self,
        path: str,
        entries: Callable[[Any], Any],
        following: Callable[[Any], Mapping[str, Any] | None],
        *,
        params: Mapping[str, Any] | None = None,
        seconds: Seconds,
    ) -> list[Any]:
        """Return the entries of all pages of a list, within `seconds` in all.

        Parameters
        ----------
        entries
            Takes the list of entries out of a page.
        following
            Takes out the parameters that ask for the next page; None or empty ends the list.
        """
        deadline, found, more = DeadlineEvent(seconds), list[Any](), dict[str, Any]()
        for _ in range(MOST_PAGES):
            asked = {**(params or {}), **more}
            page = self.call("GET", path, params=asked, seconds=deadline.left())
            try:
                shown, after = entries(page), following(page)
            except (KeyError, TypeError, AttributeError):
                shown, after = None, None
            if not isinstance(shown, list):
                raise self.odd("something that is not a list")
            found += shown
            if not after:
                return found
            if dict(after) == more or deadline.is_set():
                break
            more = dict(after)
        # Part of a list must not be taken for all of it, because missing machines count as gone.
        raise self.odd("a list without an end")

    def odd(self, what: str, *, creates: bool = False) -> CloudError:
        """Return the error for an answer that is not as documented."""
        cause = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
        return CloudError(Failure(cause, f"{host_of(self.base)} answered {what}", "odd-answer"))

    def _exchanged(
        self, ask: HttpRequest, seconds: Seconds, lost: Cause
    ) -> tuple[int, Seconds | None, bytes]:
        """Return the status, the requested pause and the body of one answer."""
        try:
            return exchange(ask, DeadlineEvent(seconds), self.most_body)
        except (IncompleteResponse, CloudError) as broke:
            raise unanswered(broke, lost) from None
        except Stopped:
            words = f"{host_of(ask.url)} did not answer within {seconds:g} s"
            raise CloudError(Failure(lost, words, "no-answer")) from None

    def _document(self, raw: bytes, lost: Cause) -> Any:
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            if is_page(raw[:200]):
                page = web_page(self.base).failure.message
                raise CloudError(Failure(lost, page, WEB_PAGE)) from None
            creates = lost is Cause.UNKNOWN_OUTCOME
            raise self.odd("something that is not JSON", creates=creates) from None


def exchange(
    ask: HttpRequest, deadline: threading.Event, most: int = MOST_BODY
) -> tuple[int, Seconds | None, bytes]:
    """Send one request; return the status, the requested pause and the body of its answer."""
    import requests

    # Each call opens its own connection. The service may have closed a kept one meanwhile, and a
    # create written into that would end as an unknown outcome.
    with requests.Session() as session:
        session.headers["User-Agent"] = "nbprov"
        with HttpResponse(deadline, ask, session) as answer:
            answer.head()
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > most:
                    words = f"the answer of {host_of(ask.url)} is too large"
                    raise CloudError(Failure(Cause.TRANSIENT, words, "too-large"))
            return answer.status, retry_after(answer.header("Retry-After")), bytes(body)


def unanswered(broke: IncompleteResponse | CloudError, lost: Cause) -> CloudError:
    """Return the error for a broken exchange.

    A request that never reached the service created nothing.
    """
    failure = broke.error.failure if isinstance(broke, IncompleteResponse) else broke.failure
    if failure.code in UNSENT:
        return CloudError(failure)
    return CloudError(Failure(lost, failure.message, failure.code))
