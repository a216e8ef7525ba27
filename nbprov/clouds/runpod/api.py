"""Client of RunPod's REST API v2: one bounded request for each call, without retries.

The key never appears in a message. Shapes: `openapi.json` 2.0.0 of github.com/runpod/docs, of
2026-09 and 2026-11 (lists are paged since; errors are RFC 9457 documents).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.web.error_text import blotted, host_of, retry_after
from nbprov.clouds.web.json_api import DeadlineEvent, JsonApi, unanswered
from nbprov.clouds.web.response import HttpRequest, HttpResponse, IncompleteResponse, Stopped
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

__all__ = ["Api", "DeadlineEvent"]

MOST_REQUEST = 100_000
"""The most bytes of a request: beyond 102,400 RunPod answers 413 before it reads anything
(openapi.json, createPod)."""
MOST_LINE = 1 << 20
"""The most bytes of a line of an event stream, and of a refusal; a line of a log is far shorter."""


class Api:
    """Requests of one account.

    Parameters
    ----------
    access
        The address and the key.
    """

    def __init__(self, access: KeyAccess) -> None:
        self.access = access
        self._api = JsonApi(access.base, access.key, errors.failure_of)

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, seconds: Seconds) -> Any:
        """Get a document; see `call` for what it raises."""
        return self.call("GET", path, params=params, seconds=seconds)

    def listed(
        self, path: str, name: str, params: Mapping[str, Any] | None = None, *, seconds: Seconds
    ) -> list[dict[str, Any]]:
        """Return all entries of a list, from all its pages, within `seconds` in all.

        Raises
        ------
        CloudError
            Also where an entry has no id: what is left out of a listing counts as gone.
        """

        def following(page: Any) -> Mapping[str, Any] | None:
            told = page.get("pagination") or {}
            return {"cursor": told.get("nextCursor")} if told.get("hasNextPage") else None

        entries = self._api.pages(
            path, lambda page: page[name], following, params=params, seconds=seconds
        )
        if not all(isinstance(entry, dict) and entry.get("id") for entry in entries):
            raise self._api.odd(f"{name} without ids")
        return entries

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
        """Send one request and return its answer; see `JsonApi.call`."""
        if body is not None and len(json.dumps(body)) > MOST_REQUEST:
            raise CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    f"the request is larger than the {MOST_REQUEST:,} bytes that RunPod accepts",
                    "413",
                )
            )
        return self._api.call(
            method, path, body, params=params, seconds=seconds, creates=creates, secrets=secrets
        )

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
        ask = HttpRequest("GET", f"{self.access.base}{path}", headers, params)
        stop = DeadlineEvent(seconds)
        with (
            requests.Session() as session,
            HttpResponse(stop, ask, session, quiet=quiet, by_line=True) as answer,
        ):
            try:
                answer.head()
            except (IncompleteResponse, CloudError) as broke:
                raise unanswered(broke, Cause.TRANSIENT) from None
            except Stopped:
                words = f"{host_of(ask.url)} did not answer within {seconds:g} s"
                raise CloudError(Failure(Cause.TRANSIENT, words, "no-answer")) from None
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise CloudError(self._refused(answer, path))
            yield from _events(_received(answer))

    def _refused(self, answer: HttpResponse, path: str) -> Failure:
        body = bytearray()
        for piece in _received(answer):
            body += piece
            if len(body) >= MOST_LINE:
                break
        text = blotted(body.decode("utf-8", "replace"), (self.access.key,))
        pause = retry_after(answer.header("Retry-After"))
        return errors.failure_of(answer.status, text, pause, path=path)


def _received(answer: HttpResponse) -> Iterator[bytes]:
    """Return what comes of a body until it ends, breaks off, falls silent or is stopped."""
    with contextlib.suppress(IncompleteResponse, CloudError, Stopped):
        yield from answer.chunks()


def _events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Return the entries in a stream, up to a line that is too long for one."""
    line = bytearray()
    for piece in pieces:
        line += piece
        if len(line) > MOST_LINE:
            return
        if line.endswith(b"\n"):
            if (event := _event(bytes(line))) is not None:
                yield event
            line.clear()
    if (event := _event(bytes(line))) is not None:
        yield event


def _event(line: bytes) -> dict[str, Any] | None:
    """Decode a line of an event stream; None if it is not an entry."""
    if not line.startswith(b"data:"):
        return None
    try:
        said = json.loads(line[5:])
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
