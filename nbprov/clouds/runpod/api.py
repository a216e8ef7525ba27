"""Client of RunPod's REST API v2: one bounded request for each call, without retries.

The key never appears in a message. Shapes: `openapi.json` 2.0.0 of github.com/runpod/docs, of
2026-09 and 2026-11 (lists are paged since; errors are RFC 9457 documents).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.web.error_text import (
    NOBODY,
    UNTRUSTED,
    blotted,
    broken,
    host_of,
    is_page,
    retry_after,
    web_page,
)
from nbprov.clouds.web.response import (
    CONNECT_SECONDS,
    HttpRequest,
    HttpResponse,
    IncompleteResponse,
    Stopped,
)
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

MOST_BODY = 64 << 20
"""The most bytes of an answer: a thousand pods with 4 kB of environment each are listed in about
ten megabytes."""
MOST_REQUEST = 100_000
"""The most bytes of a request: beyond 102,400 RunPod answers 413 before it reads anything
(openapi.json, createPod)."""
MOST_PAGES = 50
"""The most pages of a thousand entries: no account has more pods, and a service that repeats its
cursors must not hold a call for ever."""


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


class Api:
    """Requests of one account.

    Parameters
    ----------
    access
        The address and the key.
    """

    def __init__(self, access: KeyAccess) -> None:
        self.access = access

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, seconds: Seconds) -> Any:
        """Get a document; see `call` for what it raises."""
        return self.call("GET", path, params=params, seconds=seconds)

    def listed(
        self, path: str, name: str, params: Mapping[str, Any] | None = None, *, seconds: Seconds
    ) -> list[dict[str, Any]]:
        """Return all entries of a list, from all its pages, within `seconds` in all."""
        deadline, found, cursor = DeadlineEvent(seconds), [], ""
        for _ in range(MOST_PAGES):
            asked = {**(params or {}), **({"cursor": cursor} if cursor else {})}
            answer = self.get(path, asked, seconds=deadline.left())
            entries = answer.get(name) if isinstance(answer, dict) else None
            if not isinstance(entries, list):
                raise self._odd(f"no list of {name}", creates=False)
            found += [entry for entry in entries if isinstance(entry, dict)]
            page = answer.get("pagination")
            if not isinstance(page, dict) or not page.get("hasNextPage"):
                return found
            cursor = str(page.get("nextCursor") or "")
            if not cursor:
                break
        # Part of a list must not be taken for all of it, because missing machines count as gone.
        raise self._odd(f"a list of {name} without an end", creates=False)

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
        """Send one request and return its answer; None if the answer is empty.

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
            With the cause that `errors.py` gives it.
        """
        headers = {"Authorization": f"Bearer {self.access.key}", "Accept": "application/json"}
        ask = HttpRequest(method, f"{self.access.base}{path}", headers, params, body)
        if body is not None and len(json.dumps(body)) > MOST_REQUEST:
            raise CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    f"the request is larger than the {MOST_REQUEST:,} bytes that RunPod accepts",
                    "413",
                )
            )
        lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
        try:
            status, pause, raw = _exchange(ask, DeadlineEvent(seconds))
        except (IncompleteResponse, CloudError) as broke:
            raise _unanswered(broke, lost) from None
        except Stopped:
            raise CloudError(
                Failure(
                    lost, f"{host_of(ask.url)} did not answer within {seconds:g} s", "no-answer"
                )
            ) from None
        if status >= HTTPStatus.BAD_REQUEST:
            text = blotted(raw.decode("utf-8", "replace"), (self.access.key, *secrets))
            raise CloudError(errors.failure_of(status, text, pause, path=path, creates=creates))
        if status == HTTPStatus.NO_CONTENT or not raw.strip():
            return None
        return self._document(ask.url, raw, lost, creates=creates)

    def _document(self, url: str, raw: bytes, lost: Cause, *, creates: bool) -> Any:
        """Decode the JSON of an answer."""
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            if is_page(raw[:200]):
                page = web_page(url).failure.message
                raise CloudError(Failure(lost, page, "web-page")) from None
            raise self._odd("something that is not JSON", creates=creates) from None

    def events(
        self, path: str, params: Mapping[str, Any], *, seconds: Seconds, quiet: Seconds
    ) -> Iterator[dict[str, Any]]:
        """Return the entries of a stream of server-sent events.

        It ends with the stream, after a pause of `quiet` seconds, or after `seconds`.

        Raises
        ------
        CloudError
            If the stream does not begin, or is refused.
        """
        import requests

        headers = {
            "Authorization": f"Bearer {self.access.key}",
            "Accept": "text/event-stream",
            "User-Agent": "nbprov",
        }
        url, deadline, began = f"{self.access.base}{path}", DeadlineEvent(seconds), False
        try:
            # Without an `auth`, a .netrc entry would replace our own Authorization.
            with requests.get(
                url,
                params=params,
                headers=headers,
                auth=lambda ask: ask,
                stream=True,
                timeout=(CONNECT_SECONDS, quiet),
            ) as answer:
                began = True
                if answer.status_code >= HTTPStatus.BAD_REQUEST:
                    text = blotted(answer.text, (self.access.key,))
                    raise CloudError(
                        errors.failure_of(
                            answer.status_code,
                            text,
                            retry_after(answer.headers.get("Retry-After")),
                            path=path,
                        )
                    )
                # Read line by line: a larger chunk would be waited for until it is full.
                for line in answer.iter_lines(chunk_size=1):
                    if (event := _event(line)) is not None:
                        yield event
                    if deadline.is_set():
                        return
        except (requests.RequestException, OSError) as error:
            if not began:
                raise CloudError(broken(url, error, secrets=(self.access.key,)).failure) from None

    def _odd(self, what: str, *, creates: bool) -> CloudError:
        cause = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
        return CloudError(
            Failure(cause, f"{host_of(self.access.base)} answered {what}", "odd-answer")
        )


def _exchange(ask: HttpRequest, deadline: DeadlineEvent) -> tuple[int, Seconds | None, bytes]:
    """Return the status, the requested pause and the body of one answer."""
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
                if len(body) > MOST_BODY:
                    raise CloudError(
                        Failure(
                            Cause.TRANSIENT,
                            f"the answer of {host_of(ask.url)} is too large",
                            "too-large",
                        )
                    )
            return answer.status, retry_after(answer.header("Retry-After")), bytes(body)


def _unanswered(broke: IncompleteResponse | CloudError, lost: Cause) -> CloudError:
    """Return the error for a broken exchange.

    A request that never reached the service created nothing.
    """
    failure = broke.error.failure if isinstance(broke, IncompleteResponse) else broke.failure
    if failure.code in (*NOBODY, UNTRUSTED, "bad-address"):
        return CloudError(failure)
    return CloudError(Failure(lost, failure.message, failure.code))


def _event(line: bytes) -> dict[str, Any] | None:
    """Decode a line of an event stream; None if it is not an entry."""
    if not line.startswith(b"data:"):
        return None
    try:
        said = json.loads(line[5:])
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
