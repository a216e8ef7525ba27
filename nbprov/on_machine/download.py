"""The machine's end of fetching: takes links over one ssh channel and downloads them below one folder. Runs on the machine.

Links and headers come by stdin alone, since they may hold a key for an hour: nothing of them is ever printed or written down. Whole files or
none: each is written beside its place under a name of ours, checked by size and digest, and put in its place in one step. It ends when stdin does.
"""
# Python 3.8 has its say: only annotations may use newer forms.
# ruff: noqa: UP032, UP035

from __future__ import annotations

import hashlib
import http.client
import json
import os
import queue
import re
import select
import shutil
import socket
import ssl
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Iterator

from .sync_files import CHUNK, KEEP_FROM, Folder, Frames, Trouble, message, trouble_of

MARKER = b"\0nbprov-fetch 1\0"
"""What it says first: what a login script prints before it is passed over."""
WORKERS = 16
"""Downloads at once: one connection to a bucket gives 50 to 100 MB/s, and small files cost a handshake each."""
SILENCE_SECONDS = 30.0
"""Without a byte: a server that is well answers in one, and a lost packet is sent again in a few."""
TRIES = 6
"""In a row without a byte; with the pauses between them they outlast a restart of a server."""
LONGEST_PAUSE = 20.0
TOLD_EVERY = 0.5
"""Seconds between two words of how far it is."""
SAVED_EVERY = 15.0
"""Seconds between two notes of what has arrived."""
STATE = ".nbprov/fetched"
"""Below the home: a file for each folder, of names, sizes, times and ETags."""
STDIN, STDOUT = 0, 1

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _Again(Exception):
    """This try failed in a way that may pass."""

    def __init__(self, code: str, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.code, self.why, self.pause = code, why, pause


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https, or from http to http; what opens a bucket is not shown to another host."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is None:
            return None
        if made.type != "https" and not (made.type == "http" and req.type == "http"):
            raise Trouble("redirect", "leads on to an address that is not https")
        if made.host != req.host:
            made.headers = {k: v for k, v in made.headers.items() if k.lower() != "authorization"}
        return made


def _opener() -> Any:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _digest(kind: str) -> Any:
    # Python 3.8 knows no such word; later ones, where rules forbid MD5 for keys, ask for it.
    more: dict[str, Any] = {"usedforsecurity": False} if sys.version_info[1] > 8 else {}
    return hashlib.new(kind, **more)


# ---------------------------------------------------------------- what is known


class Known:
    """What has been fetched into a folder: `{name: [etag, size, mtime ns]}`, kept between runs."""

    def __init__(self, folder: str) -> None:
        key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._path = os.path.join(os.path.expanduser("~"), *STATE.split("/"), key + ".json")
        self._files: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        try:
            with open(self._path, encoding="ascii") as file:
                content = json.load(file)
            self._files = {str(name): list(row) for name, row in content["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._files = {}  # it costs a download, and no more

    def etag(self, name: str, path: str) -> str:
        """The ETag of what was fetched, if the file is as it was left; else empty."""
        row = self._files.get(name, [])
        try:
            info = os.lstat(path)
        except OSError:
            return ""
        same = (
            len(row) == 3
            and stat.S_ISREG(info.st_mode)
            and row[1:] == [info.st_size, info.st_mtime_ns]
        )
        return str(row[0]) if same else ""

    def note(self, name: str, etag: str, path: str) -> None:
        """Remember a file."""
        info = os.lstat(path)
        with self._lock:
            self._files[name] = [etag, info.st_size, info.st_mtime_ns]

    def save(self) -> None:
        """Write it down, in one step; a disk that takes no more costs a download the next time."""
        with self._lock:
            text = json.dumps({"files": self._files}, separators=(",", ":"))
        beside = "{}.{}".format(self._path, os.getpid())
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(beside, "w", encoding="ascii") as file:
                file.write(text)
            os.replace(beside, self._path)
        except OSError as error:
            sys.stderr.write("what was fetched could not be noted: {}\n".format(error.strerror))


# ---------------------------------------------------------------- one file


class Download:
    """One file on its way."""

    def __init__(self, fetching: Fetching, asked: dict[str, Any]) -> None:
        self._of, self._asked = fetching, asked
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
        """Fetch it; the answer."""
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
            raise Trouble("place", "a folder stands in its place")
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
        # A bucket says beforehand which version it is; a web server says it with its answer, to which If-Range holds it.
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
                raise Trouble("busy", "another run is fetching it") from None

    def _digests(self) -> None:
        """Fresh digests over what is here already."""
        self._made = {kind: _digest(kind) for kind in ("md5", "sha256") if self._asked[kind]}
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
        """Try until it is here whole and right; True where it was here before."""
        failed = damaged = 0
        while True:
            before = self._have
            try:
                if self._one_try():
                    return True
                if self._is_right():
                    return False
                damaged += 1
                self._restart()
                if damaged > 1:
                    raise Trouble("damaged", "arrives otherwise than its digest says")
            except _Again as again:
                failed = 1 if self._have > before else failed + 1
                if failed >= TRIES:
                    raise Trouble(again.code, again.why) from None
                time.sleep(min(LONGEST_PAUSE, max(again.pause, 0.3 * 2**failed)))

    def _one_try(self) -> bool:
        if 0 < self._size == self._have:
            return False
        request = urllib.request.Request(str(self._asked["url"]), headers=self._headers())
        try:
            # The scheme was checked before: only http and https have a handler.
            with self._of.opener.open(request, timeout=SILENCE_SECONDS) as response:
                self._take(response)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error)
        except Trouble:
            raise
        except _Again:
            raise
        except Exception as error:
            raise _sorted_out(error) from None
        return False

    def _headers(self) -> dict[str, str]:
        headers = {
            "User-Agent": "nbprov",
            "Accept-Encoding": "identity",
            **{str(k): str(v) for k, v in self._asked["headers"].items()},
        }
        if self._have:
            headers["Range"] = "bytes={}-".format(self._have)
            if not self._asked["etag"]:
                # What a bucket has is held to its version by If-Match, or by the link itself.
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
            raise _Again("http", "the server cannot go on where it was cut")
        if status in _PASSING:
            pause = error.headers.get("Retry-After", "")
            raise _Again(
                "http",
                "the server answers {}".format(status),
                float(pause) if pause.isdigit() else 0.0,
            )
        code = {401: "denied", 403: "denied", 404: "missing", 410: "missing", 412: "changed"}.get(
            status, "http"
        )
        raise Trouble(code, "the server answers {}".format(status))

    def _take(self, response: Any) -> None:
        headers = response.headers
        length = headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else -1
        if response.status == 206:
            found = _RANGE.match(headers.get("Content-Range", ""))
            if not self._have or found is None or int(found[1]) != self._have:
                self._restart()
                self._validator = ""
                raise _Again("http", "the server sent another part than it was asked for")
            total = int(found[3]) if found[3] != "*" else -1
        elif response.status == 200:
            if self._have:
                self._restart()
        else:
            raise Trouble("http", "the server answers {}".format(response.status))
        self._learn(headers, total)
        for data in self._pieces(response, total):
            self._write(data)
        if self._size > self._have:
            raise _Again("cut", "the connection ends before the file does")

    def _learn(self, headers: Any, total: int) -> None:
        """What the answer says of the file: its version, its length, how it was encrypted."""
        etag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
        validator = etag if etag.startswith('"') else date
        if not self._asked["etag"] and validator != self._validator:
            self._validator = validator
        self._etag = str(self._asked["etag"]) or validator
        if total >= 0 and 0 <= int(self._asked["size"]) != total:
            raise Trouble("changed", "has another length now than when it was listed")
        self._size = total if total >= 0 else self._size
        if (
            self._size < 0
            and not self._asked["sha256"]
            and headers.get("Transfer-Encoding", "").lower() != "chunked"
        ):
            raise Trouble(
                "length", "the server does not say how long it is: add #sha256=… to the address"
            )
        # With keys of KMS or of the user's own, an ETag is no digest of the content.
        if "kms" in headers.get("x-amz-server-side-encryption", "") or headers.get(
            "x-amz-server-side-encryption-customer-algorithm"
        ):
            self._checks_md5 = False
        need = self._size - self._have
        if need > shutil.disk_usage(os.path.dirname(self._part)).free:
            raise Trouble("full", "the disk is full")
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
                raise _sorted_out(error) from None
            if not data:
                return
            if 0 <= total < self._have + len(data):
                raise Trouble("length", "more comes than the server announced")
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

    def _is_right(self) -> bool:
        told = [kind for kind in self._made if kind != "md5" or self._checks_md5]
        return all(self._made[kind].hexdigest() == str(self._asked[kind]).lower() for kind in told)

    def _settle(self) -> None:
        try:
            info = os.lstat(self._path)
            if stat.S_ISREG(info.st_mode):
                # What was private stays so.
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
        """It failed: keep the part of a large file for the next run, drop that of a small one."""
        if self._part and (self._have < KEEP_FROM or not os.path.exists(self._from)):
            self._drop()


def _sorted_out(error: BaseException) -> Exception:
    """What a failed connection comes to. No word of it repeats the address."""
    reason = (
        error.reason
        if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException)
        else error
    )
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Trouble(
            "certificate",
            "the server's certificate is not one this machine trusts: {}".format(
                reason.verify_message
            ),
        )
    if isinstance(reason, socket.gaierror):
        return _Again("name", "the machine finds no address for the server's name")
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return _Again("silent", "the server sent nothing for {:g} s".format(SILENCE_SECONDS))
    if isinstance(reason, ConnectionRefusedError):
        return _Again("connect", "the server refuses the connection")
    if isinstance(error, urllib.error.URLError) and isinstance(reason, OSError) and reason.strerror:
        return _Again("connect", "no connection: {}".format(reason.strerror))
    if isinstance(reason, (OSError, http.client.HTTPException)):
        return _Again("cut", "the connection broke")
    return Trouble("http", "could not be fetched ({})".format(type(reason).__name__))


# ---------------------------------------------------------------- the channel


class Fetching:
    """One folder that files are fetched into."""

    def __init__(self, folder: str) -> None:
        self.folder = Folder(folder)
        self.known = Known(self.folder.path)
        self.opener = _opener()
        self.lock = threading.Lock()
        self._moved = 0
        self._count = threading.Lock()
        self._out = threading.Lock()
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._workers: list[threading.Thread] = []

    def say(self, **content: Any) -> None:
        """Send one message."""
        data = memoryview(message(**content))
        with self._out:
            while data:
                data = data[os.write(STDOUT, data) :]

    def moved(self, count: int) -> None:
        """Note bytes that have come, or have to come again."""
        with self._count:
            self._moved += count

    @property
    def so_far(self) -> int:
        """Bytes that have come."""
        return self._moved

    def opened(self) -> dict[str, Any]:
        """What the other side should know of the folder."""
        near = self.folder.path
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        is_file = os.path.lexists(self.folder.path) and not os.path.isdir(self.folder.path)
        return {
            "path": self.folder.path,
            "file": is_file,
            "home": self.folder.is_home_or_above(),
            "free": shutil.disk_usage(near).free,
        }

    def check(self, rows: list[list[Any]]) -> list[int]:
        """Numbers of the rows `[name, size, etag, md5]` that are not here as they should be."""
        return [number for number, row in enumerate(rows) if not self._is_here(*row)]

    def _is_here(self, name: str, size: int, etag: str, md5: str) -> bool:
        try:
            path = self.folder.place(name)
            info = os.lstat(path)
        except (OSError, Trouble):
            return False
        if not stat.S_ISREG(info.st_mode) or info.st_size != size:
            return False
        if etag and self.known.etag(name, path) == etag:
            return True
        if not md5:
            return False
        made = _digest("md5")
        try:
            with self.folder.open(name) as file:
                for data in iter(lambda: file.read(CHUNK), b""):
                    made.update(data)
        except (OSError, Trouble):
            return False
        if made.hexdigest() != md5:
            return False
        self.known.note(name, etag, path)
        return True

    def get(self, asked: dict[str, Any]) -> None:
        """Begin, or queue, a download."""
        if not self._workers:
            self.folder.make(as_root=True)
        if len(self._workers) < WORKERS:
            self._workers.append(threading.Thread(target=self._work, daemon=True))
            self._workers[-1].start()
        self._waiting.put(asked)

    def _work(self) -> None:
        while True:
            asked = self._waiting.get()
            if asked is None:
                return
            download = Download(self, asked)
            try:
                self.say(**download.run())
            except Exception as error:
                trouble = (
                    error
                    if isinstance(error, Trouble)
                    else Trouble("io", "could not be fetched ({})".format(type(error).__name__))
                )
                if trouble.code != "busy":
                    download.leave()
                self.say(failed=asked["get"], code=trouble.code, why=trouble.why)

    def end(self) -> None:
        """Wait for what is under way."""
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join()
        self.known.save()


def main() -> None:
    """Serve until the other side has gone."""
    os.write(STDOUT, MARKER)
    frames, fetching = Frames(), None
    told, saved = 0, time.monotonic()
    try:
        while True:
            if select.select([STDIN], [], [], TOLD_EVERY)[0]:
                data = os.read(STDIN, CHUNK)
                if not data:
                    break
                for frame in frames.feed(data):
                    fetching = _answer(fetching, frame)
            if fetching is not None and fetching.so_far != told:
                told = fetching.so_far
                fetching.say(moved=told)
            if fetching is not None and time.monotonic() - saved > SAVED_EVERY:
                fetching.known.save()
                saved = time.monotonic()
    except BrokenPipeError:
        pass  # nobody listens any more
    except Trouble as trouble:
        _say(trouble=trouble.code, why=trouble.why)
    except OSError as error:
        _say(trouble=trouble_of(error).code, why=trouble_of(error).why)
    if fetching is not None:
        fetching.known.save()
    # Downloads under way end here; their parts stay for the next run.
    os._exit(0)


def _say(**content: Any) -> None:
    os.write(STDOUT, message(**content))


def _answer(fetching: Fetching | None, frame: Any) -> Fetching | None:
    if isinstance(frame, bytes):
        raise Trouble("foul", "what came is no message of ours")
    if "open" in frame:
        fetching = Fetching(frame["open"])
        fetching.say(**fetching.opened())
    elif fetching is None:
        raise Trouble("foul", "no folder is named")
    elif "check" in frame:
        fetching.say(stale=fetching.check(frame["check"]))
    elif "get" in frame:
        fetching.get(frame)
    elif "stop" in frame:
        fetching.end()
        fetching.say(stopped=True, moved=fetching.so_far)
    return fetching


__all__ = ["MARKER", "main"]
