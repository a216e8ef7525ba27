"""The protocol between the adapter and the daemon: one JSON line each way, one connection a
call.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.paths import NoHome, home, make_folder

from .daemon import platform_calls

DIR_VARIABLE = "NBPROV_LOCAL_DIR"
TRANSPORT_VARIABLE = "NBPROV_LOCAL_TRANSPORT"
ENDPOINT_FILE = "endpoint.json"
PROTOCOL = 1
STRANGER = "UnknownCaller"
"""The code of the answer to a caller who does not know the daemon's secret; nothing was done."""

SOCKET_PATH_BYTES = 100
"""The most bytes of a unix socket's path: macOS allows 104 with the final zero."""
LINE_BYTES = 16 * 1024 * 1024
"""The longest request or answer: a start script of a megabyte and a listing of ten thousand
machines fit."""


class MachineState(StrEnum):
    """The states of a machine in the daemon's answers, as every cloud has its own.

    The adapter reads them as `InstanceState`. The daemon does not use that one, because its module
    imports offers and specs, and a daemon is started by each first launch.
    """

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDING = "ending"
    GONE = "gone"


class Unreachable(ConnectionError):
    """No daemon answers; nothing was sent."""


class AnswerLost(ConnectionError):
    """The request was sent and no answer came, so it may have been carried out."""


class NoAnswer(AnswerLost):
    """The request was sent and the time for an answer is over; the connection still stood."""


class Refusal(Exception):
    """A refusal by the daemon: a code of its API and a message.

    Attributes
    ----------
    details
        Data that belong to the code, such as `retry_after` (seconds) or `scope`.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a daemon: a unix socket, or a loopback port whose callers must know a
    secret.
    """

    kind: str
    path: str = ""
    port: int = 0
    cookie: str = ""
    pid: int = 0


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the state directory of the `local` cloud.

    `NBPROV_LOCAL_DIR`, or `local` in nbprov's home.

    Raises
    ------
    Unreachable
        If neither is named and this user has no home.
    """
    env = os.environ if environ is None else environ
    named = env.get(DIR_VARIABLE)
    try:
        return Path(named).expanduser().absolute() if named else home(env) / "local"
    except NoHome as error:
        raise Unreachable(f"{error.message}: set {DIR_VARIABLE}") from None


def private_dir(path: Path) -> Path:
    """Create a directory that only its owner can enter, and return it.

    Raises
    ------
    PermissionError
        If it exists and belongs to somebody else, or is not a directory.
    """
    make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{path} is not a directory")
    if not platform_calls.IS_WINDOWS:
        if found.st_uid != platform_calls.user_id():
            raise PermissionError(f"{path} belongs to another user")
        if found.st_mode & 0o077:
            path.chmod(0o700)
    return path


def socket_path(folder: Path) -> Path | None:
    """Return a short enough path for the daemon's unix socket.

    None if there is no such path, or no unix sockets on this platform.
    """
    if platform_calls.IS_WINDOWS or os.environ.get(TRANSPORT_VARIABLE) == "tcp":
        return None
    near = folder / "s"
    if len(os.fsencode(near)) <= SOCKET_PATH_BYTES:
        return near
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        if base and Path(base).is_dir():
            far = Path(base) / f"nbprov-{platform_calls.user_id()}" / digest
            if len(os.fsencode(far)) <= SOCKET_PATH_BYTES:
                return far
    return None


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step; nobody else can read it at any moment."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.chmod(mode)
    draft.replace(path)


def write_endpoint(folder: Path, endpoint: Endpoint) -> None:
    """Publish the address of this state directory's daemon."""
    body = {name: getattr(endpoint, name) for name in Endpoint.__slots__}
    write_private(folder / ENDPOINT_FILE, json.dumps(body).encode())


def read_endpoint(folder: Path) -> Endpoint | None:
    """Return the address that a daemon of this state directory last published.

    None if there is none.
    """
    try:
        body = json.loads((folder / ENDPOINT_FILE).read_bytes())
        return Endpoint(**body)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError):
        return None


def connect(endpoint: Endpoint, timeout: Seconds) -> socket.socket:
    """Open a connection to a daemon.

    Raises
    ------
    Unreachable
        If nobody listens there.
    """
    try:
        if endpoint.kind == "tcp":
            return socket.create_connection(("127.0.0.1", endpoint.port), timeout)
        link = platform_calls.unix_socket()
        try:
            link.settimeout(timeout)
            link.connect(endpoint.path)
        except OSError:
            link.close()
            raise
        return link
    except OSError as error:
        raise Unreachable(f"no daemon answers: {error}") from error


def exchange(
    link: socket.socket, endpoint: Endpoint, call: str, arguments: Mapping[str, Any]
) -> Any:
    """Send one request over an open connection and return the daemon's answer.

    Raises
    ------
    Refusal
        If the daemon refuses.
    AnswerLost
        If the connection ended, or stayed silent too long, after the request was sent.
    """
    request = {
        "protocol": PROTOCOL,
        "cookie": endpoint.cookie,
        "call": call,
        "arguments": arguments,
    }
    try:
        link.sendall(json.dumps(request).encode() + b"\n")
        received = bytearray()
        while not received.endswith(b"\n"):
            piece = link.recv(1 << 16)
            if not piece:
                raise AnswerLost("the connection was closed before an answer came")
            received += piece
    except TimeoutError as error:
        raise NoAnswer("no answer in time") from error
    except OSError as error:
        raise (
            error if isinstance(error, AnswerLost) else AnswerLost(f"the connection broke: {error}")
        ) from error
    answer = json.loads(received)
    if "error" in answer:
        error_body = answer["error"]
        raise Refusal(error_body["code"], error_body["message"], error_body.get("details"))
    return answer["result"]
