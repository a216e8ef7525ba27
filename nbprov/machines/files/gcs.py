"""Objects of Google Cloud Storage: listed here by its JSON API, downloaded by the machine.

Public objects are downloaded without any key. For others the machine gets, over stdin, a token
that Google has downscoped from the person's log-in (a credential access boundary): it reads what
lies below one path in one bucket, nothing else, and expires within an hour.
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

from nbprov.clouds.gcp.account.authorization import token_request
from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.clouds.web.response import as_asked
from nbprov.model.clock import Seconds
from nbprov.model.sources import split_bucket
from nbprov.remote.download.errors import DownloadError
from nbprov.remote.download.items import DownloadItem, DownloadLink

from .source_listing import SourceListing, barred_by_proxy, denied, listed

API = "https://storage.googleapis.com"
EMULATOR = "STORAGE_EMULATOR_HOST"
"""Google's own variable that names another server."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""The scope that downscoping needs; this wide token never leaves this computer."""
ROLE = "inRole:roles/storage.objectViewer"
ASK_SECONDS: tuple[Seconds, Seconds] = (5.0, 20.0)
TRIES = 3
EARLY: Seconds = 600.0
"""A token that expires sooner is not handed out any more."""
_HINT = (
    "log in with an account that has the role Storage Object Viewer (gcloud auth"
    " application-default login); the bucket needs uniform bucket-level access; or make it public"
)


class _Refused(Exception):
    """Google refused a request; `why` holds its own words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class _GcsBucket:
    """One bucket, asked anonymously or with a token."""

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
                    auth=as_asked,
                    timeout=ASK_SECONDS,
                )
            except (requests.RequestException, UnicodeError) as error:
                if (barred := barred_by_proxy(f"gs://{self.bucket}", error)) is not None:
                    raise barred from None
                if left:
                    continue
                words = (
                    f"gs://{self.bucket}: this computer, which lists the objects, cannot reach"
                    f" Google Cloud Storage ({type(error).__name__})"
                )
                raise DownloadError(words, hint="is it online?", code="fetch.unreachable") from None
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

    def one(self, key: str) -> DownloadItem | None:
        """Return the object with exactly this key."""
        try:
            return _item(self._ask(f"{quote(self.bucket, safe='')}/o/{quote(key, safe='')}"))
        except _Refused as refused:
            # Without the right to list, Google answers 403 for a missing object too; the
            # listing that follows tells the two apart.
            if refused.status in (401, 403, 404):
                return None
            raise

    def items(self, prefix: str) -> Iterator[DownloadItem]:
        """Return all objects whose key starts with a prefix."""
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
        """Return the bucket's region; empty where it may not be asked."""
        try:
            return str(
                self._ask(quote(self.bucket, safe=""), fields="location").get("location", "")
            ).lower()
        except _Refused:
            return ""

    def may_read(self, item: DownloadItem) -> bool:
        """Return whether an object is public."""
        import requests

        try:
            with requests.get(
                self.url(item),
                headers={"Range": "bytes=0-0"},
                auth=as_asked,
                timeout=ASK_SECONDS,
                stream=True,
            ) as answer:
                return answer.status_code in (200, 206, 416)
        except (requests.RequestException, UnicodeError):
            return False

    def url(self, item: DownloadItem) -> str:
        """Return the address of an object's content, in the version that was listed."""
        object_path = f"b/{quote(self.bucket, safe='')}/o/{quote(item.key, safe='')}"
        place = f"{self.base}/download/storage/v1/{object_path}?alt=media"
        return place + (f"&generation={item.etag}" if item.etag.isdigit() else "")


def _item(row: dict[str, Any]) -> DownloadItem:
    try:
        md5 = base64.b64decode(str(row.get("md5Hash", "")), validate=True).hex()
    except (binascii.Error, ValueError):
        md5 = ""
    return DownloadItem(
        str(row["name"]),
        str(row["name"]),
        int(row.get("size", 0)),
        str(row.get("generation", "")),
        md5,
    )


class DownscopedToken:
    """A token that can only read what lies below one path of one bucket.

    It is renewed before it expires.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._lock = threading.Lock()
        self._credentials: Any = None

    def token(self, *, fresh: bool = False) -> str:
        """Return the token.

        Raises
        ------
        DownloadError
            If there is no log-in, or Google does not downscope it.
        """
        try:
            import google.auth.exceptions
        except ImportError:
            raise DownloadError(
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
                    self._credentials.refresh(token_request())
            except google.auth.exceptions.DefaultCredentialsError:
                raise denied(
                    f"gs://{self._bucket}/{self._prefix}",
                    "it is not public, and no Google log-in was found here",
                    _HINT,
                ) from None
            except (google.auth.exceptions.GoogleAuthError, UnicodeError) as error:
                barred = barred_by_proxy(f"gs://{self._bucket}/{self._prefix}", error)
                raise barred or denied(
                    f"gs://{self._bucket}/{self._prefix}",
                    f"Google gave no token for it alone: {without_proxy_logins(str(error))[:200]}",
                    _HINT,
                ) from None
            return str(self._credentials.token)


def _cut_down(source: Any, bucket: str, prefix: str) -> Any:
    """Return credentials that read this object and what lies below it.

    Objects whose names only begin with the same letters are not included.
    """
    from google.auth import downscoped

    library: Any = downscoped
    where = f"projects/_/buckets/{bucket}"
    condition = None
    listing = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    if prefix:
        path = prefix.rstrip("/")
        name, below = _quoted(f"{where}/objects/{path}"), _quoted(f"{where}/objects/{path}/")
        condition = library.AvailabilityCondition(
            f"resource.name == {name} || resource.name.startsWith({below}) || "
            f"{listing}.startsWith({_quoted(path + '/')})"
        )
    rule = library.AccessBoundaryRule(f"//storage.googleapis.com/{where}", [ROLE], condition)
    return library.Credentials(source, library.CredentialAccessBoundary([rule]))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _LinkSigner:
    def __init__(self, objects: _GcsBucket, cut: DownscopedToken, *, is_open: bool) -> None:
        self._objects, self._cut, self._is_open = objects, cut, is_open

    def link(self, item: DownloadItem, tries: int) -> DownloadLink | None:
        # The stored bytes, since the listed size and digest are those of the stored form.
        headers = {"Accept-Encoding": "gzip"}
        if not self._is_open or tries:
            try:
                headers["Authorization"] = f"Bearer {self._cut.token(fresh=tries > 1)}"
            except DownloadError:
                if self._is_open:
                    return None
                raise
        return DownloadLink(self._objects.url(item), headers)


def list_gcs(uri: str) -> SourceListing:
    """List what lies at `gs://BUCKET/PATH`: the object with this key, else all below it.

    Raises
    ------
    DownloadError
        If there is no such bucket or object, no right to read it, no log-in that can be
        downscoped, or no way to Google.
    """
    bucket, path = split_bucket(uri)
    nobody, cut = _GcsBucket(bucket), DownscopedToken(bucket, path)
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
            own = _GcsBucket(bucket, cut.token())
            found, region = listed(own, path, uri), own.region()
        except _Refused as refused:
            raise _named(refused, uri, bucket) from None
    items, skipped, is_tree = found
    cloud = "gcp" if nobody.base == API else ""
    return SourceListing(
        uri, items, is_tree, _LinkSigner(nobody, cut, is_open=is_open), skipped, cloud, region
    )


def _named(refused: _Refused, uri: str, bucket: str) -> DownloadError:
    if refused.status == 404:
        return DownloadError(
            f"there is no bucket {bucket} in Google Cloud Storage",
            hint="check its name: gcloud storage ls",
            code="fetch.bucket",
        )
    if refused.status in (401, 403):
        return denied(uri, refused.why or "access denied", _HINT)
    words = f"{uri} could not be listed: {refused.why or 'without a reason'} ({refused.status})"
    return DownloadError(words, hint="try again later", code="fetch.failed")


__all__ = ["DownscopedToken", "list_gcs"]
