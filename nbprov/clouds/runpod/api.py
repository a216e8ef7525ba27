"""Client of RunPod's REST API v2: one bounded request for each call, without retries.

The key never appears in a message. Shapes: `openapi.json` 2.0.0 of github.com/runpod/docs, of
2026-09 and 2026-11 (lists are paged since; errors are RFC 9457 documents).
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.web.error_text import blotted, broken, retry_after
from nbprov.clouds.web.json_api import DeadlineEvent, JsonApi
from nbprov.clouds.web.response import CONNECT_SECONDS
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

__all__ = ["Api", "DeadlineEvent"]

MOST_REQUEST = 100_000
"""The most bytes of a request: beyond 102,400 RunPod answers 413 before it reads anything
(openapi.json, createPod)."""


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
        box, deadline = queue.SimpleQueue[Any](), DeadlineEvent(seconds)

        def read() -> None:
            try:
                for event in self._streamed(path, params, deadline, quiet):
                    box.put(event)
                box.put(None)
            except Exception as error:
                box.put(error)

        # In a thread of its own: a byte now and then would hold its reader for ever.
        threading.Thread(target=read, name="nbprov-http", daemon=True).start()
        came = False
        while True:
            try:
                event = box.get(timeout=deadline.left())
            except queue.Empty:
                if came:
                    return
                words = f"RunPod's events did not begin within {seconds:g} s"
                raise CloudError(Failure(Cause.TRANSIENT, words, "no-answer")) from None
            if isinstance(event, Exception):
                raise event
            if event is None:
                return
            came = True
            yield event

    def _streamed(
        self, path: str, params: Mapping[str, Any], deadline: DeadlineEvent, quiet: Seconds
    ) -> Iterator[dict[str, Any]]:
        import requests

        headers = {
            "Authorization": f"Bearer {self.access.key}",
            "Accept": "text/event-stream",
            "User-Agent": "nbprov",
        }
        url, began = f"{self.access.base}{path}", False
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


def _event(line: bytes) -> dict[str, Any] | None:
    """Decode a line of an event stream; None if it is not an entry."""
    if not line.startswith(b"data:"):
        return None
    try:
        said = json.loads(line[5:])
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
