"""The download of one file: whole or not at all, continued where it was cut."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Iterator

from .download_http import MIN_GAIN, SILENCE_SECONDS, Again, connection_failure, make_opener
from .download_state import Known
from .sync_files import KEEP_FROM, SyncFolder
from .sync_protocol import CHUNK, SyncFailure, trouble_of
from .transfer_limit import TransferLimit

TRIES = 6
"""In a row without a byte; with the pauses between them they outlast a restart of a server."""
LONGEST_PAUSE = 20.0

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


def digest_of_kind(kind: str) -> Any:
    """Return a fresh digest."""
    # Python 3.8 has no such parameter; later ones need it where rules forbid MD5 for keys.
    more: dict[str, Any] = {"usedforsecurity": False} if sys.version_info[1] > 8 else {}
    return hashlib.new(kind, **more)


class Target:
    """The folder that files come to, shared by all downloads; each has the same limit."""

    def __init__(self, folder: str, limit: TransferLimit) -> None:
        self.folder, self.limit = SyncFolder(folder), limit
        self.known = Known(self.folder.path)
        self.opener = make_opener()
        self.lock = threading.Lock()
        self._moved = 0
        self._count = threading.Lock()

    def moved(self, count: int) -> None:
        """Count bytes that have come, or have to come again."""
        with self._count:
            self._moved += count

    @property
    def so_far(self) -> int:
        """Bytes that have come."""
        return self._moved


class Download:
    """One file on its way.

    Parameters
    ----------
    target
        Where it comes to.
    asked
        The request: `name`, `size` (negative if unknown), `url`, `headers`, `etag`, `md5`,
        `sha256`, and its number `get`.
    """

    def __init__(self, target: Target, asked: dict[str, Any]) -> None:
        self._of, self._asked = target, asked
        self._watch = target.limit.watch()
        self._name = str(asked["name"])
        self._size = int(asked["size"])
        self._fd = -1
        self._path = self._part = self._from = ""
        self._have = 0
        self._made: dict[str, Any] = {}
        self._validator = ""
        self._etag = ""
        self._checks_md5 = bool(asked["md5"])

    def run(self) -> dict[str, Any]:
        """Fetch it, and return the answer."""
        folder = self._of.folder
        with self._of.lock:
            self._path, self._part = (
                folder.place(self._name, make=True),
                folder.part_path(self._name, make=True),
            )
        self._from = self._part + ".from"
        try:
            self._begin()
            is_same = self._all_tries()
            if is_same:
                self._drop()
            else:
                self._settle()
        except OSError as error:
            raise trouble_of(error) from None
        finally:
            if self._fd >= 0:
                os.close(self._fd)
        self._of.known.note(self._name, self._etag, self._path)
        return {"got": self._asked["get"], "bytes": self._have, "same": is_same}

    def _begin(self) -> None:
        if os.path.isdir(self._path) and not os.path.islink(self._path):
            raise SyncFailure("place", "a folder stands in its place")
        flags = (
            os.O_RDWR
            | os.O_CREAT
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_CLOEXEC", 0)
        )
        self._fd = os.open(self._part, flags, 0o644)
        self._hold()
        try:
            with open(self._from, encoding="utf-8", errors="replace") as file:
                begun_from = file.read(2000)
        except OSError:
            begun_from = ""
        # A bucket tells the version beforehand, a web server with its answer (If-Range).
        wanted = str(self._asked["etag"]) or begun_from
        self._validator = wanted
        if begun_from and begun_from == wanted and stat.S_ISREG(os.fstat(self._fd).st_mode):
            self._have = os.fstat(self._fd).st_size
            if 0 <= self._size < self._have:
                self._have = 0
        self._digests()
        if self._have:
            self._of.moved(self._have)

    def _hold(self) -> None:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SyncFailure("busy", "another run is fetching it") from None

    def _digests(self) -> None:
        """Begin digests with what is here already."""
        self._made = {kind: digest_of_kind(kind) for kind in ("md5", "sha256") if self._asked[kind]}
        os.lseek(self._fd, 0, os.SEEK_SET)
        left = self._have
        while left and self._made:
            data = os.read(self._fd, min(CHUNK, left))
            left -= len(data)
            for made in self._made.values():
                made.update(data)
            if not data:
                break
        os.ftruncate(self._fd, self._have)
        os.lseek(self._fd, self._have, os.SEEK_SET)

    def _restart(self) -> None:
        self._of.moved(-self._have)
        self._have = 0
        self._digests()

    def _all_tries(self) -> bool:
        """Try until it is here whole and right; return whether it was here before."""
        failed = damaged = 0
        while True:
            self._check_pace()
            before = self._have
            try:
                if self._one_try():
                    return True
                if self._is_right():
                    return False
                damaged += 1
                self._restart()
                if damaged > 1:
                    raise SyncFailure("damaged", "arrives otherwise than its digest says")
            except Again as again:
                failed = 1 if self._have >= before + MIN_GAIN else failed + 1
                if failed >= TRIES:
                    raise SyncFailure(again.code, again.why) from None
                time.sleep(min(LONGEST_PAUSE, max(again.pause, 0.3 * 2**failed)))

    def _one_try(self) -> bool:
        if 0 < self._size == self._have:
            return False
        request = urllib.request.Request(str(self._asked["url"]), headers=self._headers())
        try:
            # Only http and https have a handler.
            with self._of.opener.open(request, timeout=SILENCE_SECONDS) as response:
                self._take(response)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error)
        except SyncFailure:
            raise
        except Again:
            raise
        except Exception as error:
            raise connection_failure(error) from None
        return False

    def _headers(self) -> dict[str, str]:
        headers = {
            "User-Agent": "nbprov",
            "Accept-Encoding": "identity",
            **{str(k): str(v) for k, v in self._asked["headers"].items()},
        }
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
            if not self._asked["etag"]:
                # A bucket is held to the version by If-Match, or by the link itself.
                headers["If-Range"] = self._validator
        elif not self._asked["etag"]:
            known = self._of.known.etag(self._name, self._path)
            if known:
                headers["If-None-Match" if known.startswith('"') else "If-Modified-Since"] = known
        return headers

    def _refused(self, error: urllib.error.HTTPError) -> bool:
        status = error.code
        if status == 304 and not self._have:
            self._etag = self._of.known.etag(self._name, self._path)
            self._have = os.lstat(self._path).st_size
            return True
        if status == 416 and self._have:
            self._restart()
            raise Again("http", "the server cannot go on where it was cut")
        if status in _PASSING:
            pause = error.headers.get("Retry-After", "")
            raise Again(
                "http",
                f"the server answers {status}",
                float(pause) if pause.isdigit() else 0.0,
            )
        code = {401: "denied", 403: "denied", 404: "missing", 410: "missing", 412: "changed"}.get(
            status, "http"
        )
        raise SyncFailure(code, f"the server answers {status}")

    def _take(self, response: Any) -> None:
        headers = response.headers
        length = headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else -1
        if response.status == 206:
            found = _RANGE.match(headers.get("Content-Range", ""))
            if not self._have or found is None or int(found[1]) != self._have:
                self._restart()
                self._validator = ""
                raise Again("http", "the server sent another part than it was asked for")
            total = int(found[3]) if found[3] != "*" else -1
        elif response.status == 200:
            if self._have:
                self._restart()
        else:
            raise SyncFailure("http", f"the server answers {response.status}")
        self._learn(headers, total)
        with self._watch.moving():
            for data in self._pieces(response, total):
                self._write(data)
                self._check_pace()
        if self._size > self._have:
            raise Again("cut", "the connection ends before the file does")

    def _check_pace(self) -> None:
        why = self._watch.trouble()
        if why:
            raise SyncFailure("stalled", why)

    def _learn(self, headers: Any, total: int) -> None:
        """Take from an answer the file's version, its length, and how it was encrypted."""
        etag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
        validator = etag if etag.startswith('"') else date
        if not self._asked["etag"] and validator != self._validator:
            self._validator = validator
        self._etag = str(self._asked["etag"]) or validator
        if total >= 0 and 0 <= int(self._asked["size"]) != total:
            raise SyncFailure("changed", "has another length now than when it was listed")
        self._size = total if total >= 0 else self._size
        if (
            self._size < 0
            and not self._asked["sha256"]
            and headers.get("Transfer-Encoding", "").lower() != "chunked"
        ):
            raise SyncFailure(
                "length", "the server does not say how long it is: add #sha256=… to the address"
            )
        # With keys of KMS or of the user's own, an ETag is no digest of the content.
        if "kms" in headers.get("x-amz-server-side-encryption", "") or headers.get(
            "x-amz-server-side-encryption-customer-algorithm"
        ):
            self._checks_md5 = False
        need = self._size - self._have
        if need > shutil.disk_usage(os.path.dirname(self._part)).free:
            raise SyncFailure("full", "the disk is full")
        if need >= KEEP_FROM and self._validator:
            try:
                with open(self._from, "w", encoding="utf-8") as file:
                    file.write(self._validator[:2000])
            except OSError as error:
                raise trouble_of(error) from None

    def _pieces(self, response: Any, total: int) -> Iterator[bytes]:
        while True:
            try:
                data = response.read1(CHUNK)
            except Exception as error:
                raise connection_failure(error) from None
            if not data:
                return
            if 0 <= total < self._have + len(data):
                raise SyncFailure("length", "more comes than the server announced")
            yield data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise trouble_of(error) from None
        for made in self._made.values():
            made.update(data)
        self._have += len(data)
        self._of.moved(len(data))
        self._watch.moved(len(data))

    def _is_right(self) -> bool:
        told = [kind for kind in self._made if kind != "md5" or self._checks_md5]
        return all(self._made[kind].hexdigest() == str(self._asked[kind]).lower() for kind in told)

    def _settle(self) -> None:
        try:
            info = os.lstat(self._path)
            if stat.S_ISREG(info.st_mode):
                # A private file stays private.
                os.chmod(self._part, info.st_mode & 0o777 | 0o600)
        except FileNotFoundError:
            pass
        os.replace(self._part, self._path)
        self._forget(self._from)

    def _drop(self) -> None:
        self._forget(self._part)
        self._forget(self._from)

    def _forget(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def leave(self) -> None:
        """Keep the part of a large file for the next run, and drop that of a small one."""
        if self._part and (self._have < KEEP_FROM or not os.path.exists(self._from)):
            self._drop()
