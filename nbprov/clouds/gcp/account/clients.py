"""Access to the Compute API: google-cloud-compute for machines, and plain REST for quick questions.

Requests and answers are the API's own JSON; the library's message classes are used in this module
only. The library never follows operations, because it would ask the real Google even if another
endpoint is set (`_zone_operations_client` is built without it), and because waiting is the
engine's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from nbprov.clouds.gcp import errors
from nbprov.clouds.gcp.account.authorization import keep_authorization
from nbprov.clouds.gcp.account.credentials import LOGIN_SECONDS, Login
from nbprov.clouds.gcp.account.sdk import compute_library
from nbprov.clouds.web.error_text import retry_after, words_of
from nbprov.clouds.web.proxies import BAD_PROXY
from nbprov.clouds.web.response import as_asked
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

CONNECT_SECONDS: Seconds = 5.0
"""How long a connection may take to open; Google's front ends answer in well under a second."""
PAGE = 500
MOST_PAGES = 200


class Deadline:
    """The time limit of one adapter call, shared by its requests."""

    def __init__(self, seconds: Seconds) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> Seconds:
        """Return the seconds left; raise a `transient` `CloudError` if there are none."""
        left = self._end - time.monotonic()
        if left <= 0.05:
            raise CloudError(
                Failure(Cause.TRANSIENT, "Google's Compute API took too long", "deadline")
            )
        return left


class Compute:
    """The API of one login, in one project. Safe to use from several threads.

    Clients are made when first used and kept.
    """

    def __init__(self, login: Login, project: str = "") -> None:
        self.login = login
        self.project = project or login.project
        """The project that all calls are about."""
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}

    def within(self, project: str) -> Compute:
        """Return the API of the same login in another project."""
        if project == self.project:
            return self
        found = Compute(self.login, project)
        found._lock, found._clients = self._lock, self._clients
        return found

    def call(
        self,
        service: str,
        method: str,
        deadline: Deadline,
        *,
        body: tuple[str, str, Mapping[str, Any]] | None = None,
        creates: str = "",
        spot: bool = False,
        **fields: Any,
    ) -> dict[str, Any]:
        """Call a method of google-cloud-compute once, without its retries, and return the answer as
        JSON.

        Parameters
        ----------
        service, method
            The names of the client and the method in the library, such as `Instances` and
            `insert_unary`.
        body
            The request's field for the body, the name of its message class, and the body as JSON.
        creates
            `insert` or `bulkInsert`, if a lost answer may have created machines.

        Raises
        ------
        CloudError
            With the cause.
        """
        answer: dict[str, Any] = self._as_json(
            self._sent(service, method, deadline, body, creates, spot, fields)
        )
        return answer

    def pages(
        self, service: str, method: str, deadline: Deadline, **fields: Any
    ) -> Iterator[dict[str, Any]]:
        """Return every page of a list, each within what is left of the deadline.

        Raises
        ------
        CloudError
            If a page failed or a part of the cloud did not answer, because machines that are
            missing from a listing count as gone.
        """
        token = ""
        for _ in range(MOST_PAGES):
            extra = {"page_token": token} if token else {}
            pager = self._sent(
                service, method, deadline, None, "", False, {**fields, "max_results": PAGE, **extra}
            )
            page = self._as_json(next(iter(pager.pages)))
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
        raise CloudError(
            Failure(Cause.TRANSIENT, f"Google's list did not end after {MOST_PAGES} pages")
        )

    def _sent(
        self,
        service: str,
        method: str,
        deadline: Deadline,
        body: tuple[str, str, Mapping[str, Any]] | None,
        creates: str,
        spot: bool,
        fields: Mapping[str, Any],
    ) -> Any:
        request = {"project": self.project, **fields}
        try:
            library = compute_library()
            if body is not None:
                request[body[0]] = _message(library, body[1], body[2])
            client = self._client(library, service)
            self.login.fresh(min(LOGIN_SECONDS, deadline.left))
            return getattr(client, method)(request=request, retry=None, timeout=deadline.left)
        except CloudError:
            raise
        except Exception as error:
            failure = errors.failure_of_exception(error, call=creates, spot=spot)
            if failure is None:
                raise
            raise CloudError(failure) from _shown(error, failure)

    def _client(self, library: Any, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                make = getattr(library, f"{service}Client")
                options = {"api_endpoint": self.login.endpoint}
                client = make(credentials=self.login.credentials, client_options=options)
                keep_authorization(client)
                self._clients[service] = client
            return self._clients[service]

    @staticmethod
    def _as_json(message: Any) -> dict[str, Any]:
        from google.protobuf.json_format import MessageToDict

        found: dict[str, Any] = MessageToDict(type(message).pb(message))
        return found


class ComputeRest:
    """Quick questions to the Compute API, with google-auth and `requests` only.

    Importing the whole library would cost a check two seconds.
    """

    def __init__(self, login: Login) -> None:
        self.login = login

    def ask(
        self, path: str, deadline: Deadline, *, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a GET, or a POST whose body asks and changes nothing. `path` is below the project.

        Raises
        ------
        CloudError
            With the cause.
        """
        import requests

        url = f"{self.login.endpoint}/compute/v1/projects/{self.login.project}{path}"
        try:
            self.login.fresh(min(LOGIN_SECONDS, deadline.left))
            headers: dict[str, str] = {"User-Agent": "nbprov"}
            if self.login.credentials.token:
                self.login.credentials.apply(headers)
            left = deadline.left
            response = requests.request(
                "GET" if body is None else "POST",
                url,
                json=body,
                headers=headers,
                auth=as_asked,
                timeout=(min(CONNECT_SECONDS, left), left),
                allow_redirects=False,
            )
        except CloudError:
            raise
        except Exception as error:
            failure = errors.failure_of_exception(error)
            if failure is None:
                raise
            raise CloudError(failure) from _shown(error, failure)
        return _document(response)


def _message(library: Any, name: str, content: Mapping[str, Any]) -> Any:
    """Turn a JSON body into the library's message."""
    from google.protobuf.json_format import ParseError

    try:
        return getattr(library, name).from_json(json.dumps(content))
    except ParseError as error:
        # An old library does not know a field; nothing was sent.
        words = f"this google-cloud-compute is too old: {str(error)[:200]}"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "old-library")) from None


def _document(response: Any) -> dict[str, Any]:
    try:
        content = response.json()
    except ValueError:
        content = None
    if response.status_code < 300 and isinstance(content, dict):
        return content
    if response.status_code < 300:
        raise CloudError(
            Failure(
                Cause.TRANSIENT,
                "the answer of Google's Compute API is not JSON",
                "not-json",
            )
        )
    said = errors.said_of_answer(
        response.status_code,
        content,
        retry_after=retry_after(response.headers.get("Retry-After")),
        text=words_of(response.text),
    )
    raise CloudError(errors.failure_of(said))


def _shown(error: BaseException, failure: Failure) -> BaseException | None:
    """Return what a traceback may show of an exception, which is nothing of a proxy's address.

    The request is removed: its body may hold a host key, a header the token.
    """
    if failure.code == BAD_PROXY:
        return None
    for name in ("request", "response"):
        if getattr(error, name, None) is not None:
            try:
                setattr(error, name, None)
            except AttributeError:
                if hasattr(error, f"_{name}"):
                    setattr(error, f"_{name}", None)
    return error
