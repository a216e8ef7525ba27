"""Objects of Google Cloud Storage: listed here by its JSON API, fetched by the machine.

What everybody may read is fetched without any key. Else the machine is handed, by stdin, a token that Google has cut down from the person's log-in
for this (a credential access boundary): it reads what lies below the one path in the one bucket, nothing else, and dies within an hour.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC
from typing import Any
from urllib.parse import quote

from nbprov.model.clock import Seconds
from nbprov.model.sources import split_bucket
from nbprov.remote.download.download import Item, Link
from nbprov.remote.download.errors import FetchError

from .remote_sources import Found, denied, listed

API = "https://storage.googleapis.com"
EMULATOR = "STORAGE_EMULATOR_HOST"
"""Google's own variable that names another server."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""What a token must have to be cut down; the wide one never leaves this computer."""
ROLE = "inRole:roles/storage.objectViewer"
ASK_SECONDS: tuple[Seconds, Seconds] = (5.0, 20.0)
TRIES = 3
EARLY: Seconds = 600.0
"""So long before its end a token is not handed out any more."""
_HINT = (
    "log in with an account that may (gcloud auth application-default login) with the role Storage Object Viewer; the bucket needs uniform "
    "bucket-level access; or make it public"
)


class _Refused(Exception):
    """The answer was no; `why` in Google's words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class _Objects:
    """One bucket, asked as nobody or with a token."""

    def __init__(self, bucket: str, token: str = "") -> None:
        named = os.environ.get(EMULATOR, "")
        self.base = (named if "://" in named else f"http://{named}") if named else API
        self.base = self.base.rstrip("/")
        self.bucket, self._token = bucket, token

    def _ask(self, path: str, **params: str) -> dict[str, Any]:
        import requests

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        for left in reversed(range(TRIES)):
            try:
                answer = requests.get(
                    f"{self.base}/storage/v1/b/{path}",
                    params=params,
                    headers=headers,
                    timeout=ASK_SECONDS,
                )
            except requests.RequestException as error:
                if left:
                    continue
                words = f"gs://{self.bucket}: no way to Google Cloud Storage from this computer, which lists the objects ({type(error).__name__})"
                raise FetchError(words, hint="is it online?", code="fetch.unreachable") from None
            if answer.status_code in (429, 500, 502, 503, 504) and left:
                time.sleep(1.0)
                continue
            break
        try:
            content = answer.json()
        except ValueError:
            content = {}
        if answer.status_code != 200 or not isinstance(content, dict):
            told = content.get("error") if isinstance(content, dict) else None
            raise _Refused(
                answer.status_code,
                str(told.get("message", ""))[:200] if isinstance(told, dict) else "",
            )
        return content

    def one(self, key: str) -> Item | None:
        """The object of exactly this key."""
        try:
            return _item(self._ask(f"{quote(self.bucket, safe='')}/o/{quote(key, safe='')}"))
        except _Refused as refused:
            # Who may read and not list is told 403 of what is not there; the listing tells.
            if refused.status in (401, 403, 404):
                return None
            raise

    def items(self, prefix: str) -> Iterator[Item]:
        """All objects whose key begins so."""
        token = ""
        fields = "nextPageToken,items(name,size,md5Hash,generation,contentEncoding)"
        while True:
            more = {"pageToken": token} if token else {}
            page = self._ask(
                f"{quote(self.bucket, safe='')}/o",
                prefix=prefix,
                maxResults="1000",
                fields=fields,
                **more,
            )
            yield from (_item(row) for row in page.get("items", ()))
            following = str(page.get("nextPageToken") or "")
            if not following or following == token:
                return
            token = following

    def region(self) -> str:
        """Where the bucket lies; empty where that may not be asked."""
        try:
            return str(
                self._ask(quote(self.bucket, safe=""), fields="location").get("location", "")
            ).lower()
        except _Refused:
            return ""

    def may_read(self, item: Item) -> bool:
        """Whether an object is open to all."""
        import requests

        try:
            with requests.get(
                self.url(item), headers={"Range": "bytes=0-0"}, timeout=ASK_SECONDS, stream=True
            ) as answer:
                return answer.status_code in (200, 206, 416)
        except requests.RequestException:
            return False

    def url(self, item: Item) -> str:
        """Where the content of an object is, in the version that was listed."""
        place = f"{self.base}/download/storage/v1/b/{quote(self.bucket, safe='')}/o/{quote(item.key, safe='')}?alt=media"
        return place + (f"&generation={item.etag}" if item.etag.isdigit() else "")


def _item(row: dict[str, Any]) -> Item:
    try:
        md5 = base64.b64decode(str(row.get("md5Hash", "")), validate=True).hex()
    except (binascii.Error, ValueError):
        md5 = ""
    return Item(
        str(row["name"]),
        str(row["name"]),
        int(row.get("size", 0)),
        str(row.get("generation", "")),
        md5,
    )


class Cut:
    """A token cut down to reading what lies below one path of one bucket; a new one is asked for before one ends."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._lock = threading.Lock()
        self._credentials: Any = None

    def token(self, *, fresh: bool = False) -> str:
        """The token.

        Raises
        ------
        FetchError
            There is no log-in, or Google does not cut it down.
        """
        try:
            import google.auth.exceptions
            from google.auth.transport.requests import Request
        except ImportError:
            raise FetchError(
                "gs:// needs the package google-auth here",
                hint='pip install "nbprov[gcp]"',
                code="fetch.library",
            ) from None
        with self._lock:
            try:
                if self._credentials is None:
                    source, _ = google.auth.default(scopes=[SCOPE])
                    self._credentials = _cut_down(source, self._bucket, self._prefix)
                left = self._credentials.expiry
                soon = left is None or left.replace(tzinfo=UTC).timestamp() < time.time() + EARLY
                if fresh or soon or not self._credentials.token:
                    self._credentials.refresh(Request())
            except google.auth.exceptions.DefaultCredentialsError:
                raise denied(
                    f"gs://{self._bucket}/{self._prefix}",
                    "it is not public, and no Google log-in was found here",
                    _HINT,
                ) from None
            except google.auth.exceptions.GoogleAuthError as error:
                raise denied(
                    f"gs://{self._bucket}/{self._prefix}",
                    f"no token for it alone was to be had: {str(error)[:200]}",
                    _HINT,
                ) from None
            return str(self._credentials.token)


def _cut_down(source: Any, bucket: str, prefix: str) -> Any:
    """Credentials that read this object and what lies below it, and not what only begins with the same letters."""
    from google.auth import downscoped

    library: Any = downscoped
    where = f"projects/_/buckets/{bucket}"
    condition = None
    if prefix:
        path = prefix.rstrip("/")
        name, below = _quoted(f"{where}/objects/{path}"), _quoted(f"{where}/objects/{path}/")
        condition = library.AvailabilityCondition(
            f"resource.name == {name} || resource.name.startsWith({below}) || "
            f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith({_quoted(path + '/')})"
        )
    rule = library.AccessBoundaryRule(f"//storage.googleapis.com/{where}", [ROLE], condition)
    return library.Credentials(source, library.CredentialAccessBoundary([rule]))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Links:
    def __init__(self, objects: _Objects, cut: Cut, *, is_open: bool) -> None:
        self._objects, self._cut, self._is_open = objects, cut, is_open

    def link(self, item: Item, tries: int) -> Link | None:
        # Stored bytes, or their digest and size would not be those that were listed.
        headers = {"Accept-Encoding": "gzip"}
        if not self._is_open or tries:
            try:
                headers["Authorization"] = f"Bearer {self._cut.token(fresh=tries > 1)}"
            except FetchError:
                if self._is_open:
                    return None
                raise
        return Link(self._objects.url(item), headers)


def look_at_gs(uri: str) -> Found:
    """What lies at `gs://BUCKET/PATH`: the object of this key, else all below it.

    Raises
    ------
    FetchError
        No such bucket or object, no right to read it, no log-in that can be cut down, no way to Google.
    """
    bucket, path = split_bucket(uri)
    nobody, cut = _Objects(bucket), Cut(bucket, path)
    is_open = False
    try:
        found = listed(nobody, path, uri)
        is_open = nobody.may_read(found[0][0])
        region = nobody.region()
    except _Refused as refused:
        if refused.status not in (401, 403):
            raise _named(refused, uri, bucket) from None
    if not is_open:
        try:
            own = _Objects(bucket, cut.token())
            found, region = listed(own, path, uri), own.region()
        except _Refused as refused:
            raise _named(refused, uri, bucket) from None
    items, skipped, is_tree = found
    cloud = "gcp" if nobody.base == API else ""
    return Found(uri, items, is_tree, _Links(nobody, cut, is_open=is_open), skipped, cloud, region)


def _named(refused: _Refused, uri: str, bucket: str) -> FetchError:
    if refused.status == 404:
        return FetchError(
            f"there is no bucket {bucket} in Google Cloud Storage",
            hint="see that its name is right: gcloud storage ls",
            code="fetch.bucket",
        )
    if refused.status in (401, 403):
        return denied(uri, refused.why or "access denied", _HINT)
    words = f"{uri} could not be listed: {refused.why or 'no words'} ({refused.status})"
    return FetchError(words, hint="try again later", code="fetch.failed")


__all__ = ["Cut", "look_at_gs"]
