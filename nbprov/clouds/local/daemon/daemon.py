"""The daemon of the `local` cloud: `python -m nbprov.clouds.local.daemon.daemon --dir DIR`.

There is one for each state directory; its machines outlive it.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import logging.handlers
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from nbprov.clouds.local import rpc
from nbprov.model.clock import Seconds
from nbprov.model.paths import open_private

from . import machine_lifecycle, platform_calls
from .api import AnswerWithheld, Service

log = logging.getLogger("nbprov.local")

IDLE_TICK: Seconds = 0.25
"""The pause between two looks while no machine lives."""
LOG_BYTES = 1_000_000
"""The size at which the log is rotated; one old log is kept."""
GREETING = b"."
"""What a daemon that is ready sends to the process that started it."""


class Daemon:
    """Serves the calls of one state directory.

    It ends after long idleness, when told to, or when the directory is gone.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.service = Service(root)
        self.cookie = secrets.token_hex(16)
        self.called = time.monotonic()
        self.open_calls = 0
        self.ending = asyncio.Event()
        self.quiet = asyncio.Event()
        self.quiet.set()

    async def run(self, ready: Any) -> None:
        """Serve; `ready` is called once calls are answered."""
        server = await self._listen()
        platform_calls.on_terminate(self.ending.set)
        self.service.adopt()
        log.info("serving %s", self.root)
        ready()
        while not self.ending.is_set():
            await self._tick()
            pause = machine_lifecycle.TICK if self.service.machines.active else IDLE_TICK
            try:
                async with asyncio.timeout(pause):
                    await self.ending.wait()
            except TimeoutError:
                continue
        (self.root / rpc.ENDPOINT_FILE).unlink(missing_ok=True)
        server.close()
        await self.quiet.wait()
        self.service.store.close()
        log.info("ended")

    async def _tick(self) -> None:
        if not self.root.is_dir():
            log.warning("the state directory is gone: ending its machines")
            await self.service.machines.abandon()
            self.ending.set()
            return
        self.service.tick()
        if self.open_calls or not self.service.is_idle:
            self.called = time.monotonic()
        elif time.monotonic() - self.called > self.service.machines.timing().idle_exit:
            log.info("idle: no machine and no call")
            self.ending.set()

    async def _listen(self) -> asyncio.Server:
        path = rpc.socket_path(self.root)
        if path is not None:
            rpc.private_dir(path.parent)
            path.unlink(missing_ok=True)
            # Published before it is served: a caller who reaches this daemon with the last one's
            # secret finds the new secret when it looks again.
            rpc.write_endpoint(
                self.root, rpc.Endpoint("unix", path=str(path), cookie=self.cookie, pid=os.getpid())
            )
            server = await platform_calls.serve_unix(self._serve, path, rpc.LINE_BYTES)
            path.chmod(0o600)
            return server
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=rpc.LINE_BYTES)
        port = int(server.sockets[0].getsockname()[1])
        rpc.write_endpoint(
            self.root, rpc.Endpoint("tcp", port=port, cookie=self.cookie, pid=os.getpid())
        )
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_calls += 1
        self.quiet.clear()
        self.called = time.monotonic()
        try:
            line = await reader.readline()
            if line.endswith(b"\n"):
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (AnswerWithheld, ConnectionError):
            log.info("a call ended without an answer")
        finally:
            self.open_calls -= 1
            if not self.open_calls:
                self.quiet.set()
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not secrets.compare_digest(str(request["cookie"]), self.cookie):
                raise rpc.Refusal(rpc.STRANGER, "the caller does not know this daemon's secret")
            if request["protocol"] != rpc.PROTOCOL:
                raise rpc.Refusal(
                    "UnknownCall",
                    (
                        "the running daemon is of another release; end it with python -m "
                        "nbprov.clouds.local stop"
                    ),
                )
            if request["call"] == "shutdown":
                ended = (
                    await self.service.call_end_all({})
                    if request["arguments"].get("end_machines")
                    else 0
                )
                self.ending.set()
                return {"result": ended}
            return {"result": await self.service.handle(request["call"], request["arguments"])}
        except rpc.Refusal as refusal:
            return {
                "error": {
                    "code": refusal.code,
                    "message": refusal.message,
                    "details": refusal.details,
                }
            }
        except (KeyError, TypeError, ValueError) as error:
            # The request itself is not logged, because it may hold keys.
            log.warning("a request could not be read: %s", type(error).__name__)
            return {
                "error": {
                    "code": "InvalidParameter",
                    "message": f"the request could not be read: {type(error).__name__}",
                }
            }
        except OSError as error:
            log.exception("a call failed")
            return {"error": {"code": "InternalError", "message": str(error)}}


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """A log that its user alone can read."""

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return open(open_private(self.baseFilename, flags), "a", encoding=self.encoding)


def lock(root: Path) -> IO[bytes] | None:
    """Return the lock of a state directory, held while the file is open.

    None if another daemon has it.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    file = os.fdopen(open_private(str(root / "daemon.lock"), flags), "ab")
    if platform_calls.lock(file):
        return file
    file.close()
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon of a state directory; return at once if one runs already."""
    parser = argparse.ArgumentParser(
        prog="python -m nbprov.clouds.local.daemon.daemon", description=__doc__
    )
    parser.add_argument("--dir", type=Path, help="the state directory")
    parser.add_argument(
        "--foreground", action="store_true", help="stay a child of the starting process"
    )
    options = parser.parse_args(arguments)
    root: Path = (options.dir or rpc.state_dir()).absolute()
    rpc.private_dir(root)
    if options.foreground or platform_calls.IS_WINDOWS:
        return _run(root, lambda: None)
    return _run_detached(root)


def _run_detached(root: Path) -> int:
    """Run in a grandchild, so that the starting process need not reap it.

    Returns when the daemon serves or has failed.
    """
    reading, writing = os.pipe()
    if platform_calls.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            return 0 if told.read(1) == GREETING else 1
    os.close(reading)

    def ready() -> None:
        os.write(writing, GREETING)
        os.close(writing)

    return _run(root, ready)


def _run(root: Path, ready: Any) -> int:
    held = lock(root)
    if held is None:
        ready()
        return 0
    with held:
        handler = _PrivateLog(root / "daemon.log", maxBytes=LOG_BYTES, backupCount=1)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)

        async def serve() -> None:
            await Daemon(root).run(ready)

        try:
            asyncio.run(serve())
        except Exception:
            log.exception("the daemon failed")
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
