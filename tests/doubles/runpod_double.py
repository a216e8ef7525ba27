"""RunPod's REST API v2 (and the used part of GraphQL) as a server on loopback, with scripted
faults.

    python tests/doubles/runpod_double.py --port 0 [--machines FOLDER] [--seed N]

prints `READY http://127.0.0.1:PORT`. Requests and answers are checked against runpod_schema.py;
`/_double/problems` returns what broke it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))

from double_process import DoubleProcess
from machines import Machines
from runpod_catalogue import KEY
from runpod_service import Hung, Raw, Service
from runpod_world import Fault, Refusal, World

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
}
TITLES |= {
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
LIMITS = {
    "RateLimit": '"minute";r=59;t=12',
    "RateLimit-Policy": '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400',
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = (
        -1
        # without a buffer every answer on a kept connection waits 40 ms for an ACK
    )
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        if (
            len(raw) < length
        ):  # the client was killed in the middle: no server carries out half a request
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw) if raw else None
            if parts.path.startswith("/_double/"):
                self._json(
                    200,
                    self.server.control(self.command, parts.path.removeprefix("/_double/"), body),
                )
                return
            status, made = self.server.service.answer(
                self.command, parts.path, dict(parse_qsl(parts.query)), headers, body
            )
            if parts.path.endswith("/logs"):
                self._stream(made)
            else:
                self._json(status, made, LIMITS)
        except Refusal as refused:
            title = TITLES.get(refused.status, "Error")
            problem: dict[str, Any] = {
                "title": title,
                "status": refused.status,
                "detail": refused.detail,
            }
            problem |= {"errors": refused.errors} if refused.errors else {}
            self._json(
                refused.status,
                problem,
                {**LIMITS, **refused.headers, "Content-Type": "application/problem+json"},
            )
        except Raw as odd:
            self._send(odd.status, odd.body, {"Content-Type": odd.kind}, cut=odd.cut)
        except Hung:
            self.close_connection = True
        except Exception as error:
            self.server.service.world.problems.append(f"the double failed: {error!r}")
            self._json(
                500,
                {
                    "title": "Internal Server Error",
                    "status": 500,
                    "detail": f"the double failed: {error!r}",
                },
            )

    do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def _json(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self._send(status, body, {"Content-Type": "application/json", **(headers or {})})

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])
        self.wfile.flush()
        if cut is not None:
            self.close_connection = True

    def _stream(self, lines: list[dict[str, str]]) -> None:
        """Stream server-sent events.

        The existing lines, then nothing as long as the client listens.
        """
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(f"id: {line['ts']}/1\ndata: {json.dumps(line)}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True
        self.server.service.closing.wait(30.0)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, port: int, world: World) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.service = Service(world)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""

    def control(self, method: str, name: str, body: Any) -> Any:
        """Handle a control request."""
        world = self.service.world
        with world.lock:
            if name == "faults" and method == "POST":
                where = {k: str(v) for k, v in body.get("where", {}).items()}
                fault = Fault(
                    body.get("call", "createPod"),
                    body["do"],
                    int(body.get("times", 1)),
                    where,
                    float(body.get("seconds", 0)),
                )
                world.faults.append(fault)
            elif name == "reset":
                self.service.world = World(1, world.machines)
            elif name == "stock":
                world.stock[(body.get("kind", ""), body.get("centre", ""))] = int(body["left"])
            elif name == "settings":
                known = {one.name for one in fields(world.settings)}
                assert set(body) <= known, sorted(set(body) - known)
                for key, value in body.items():
                    setattr(world.settings, key, value)
            elif name == "preempt":
                world.act(body["id"], "stop")
            elif name == "pods" and method == "POST":
                for key, value in body.items():
                    setattr(world.pods[body["id"]], key, value)
            elif name == "pods":
                return [
                    {"id": p.id, "machine": p.machine, "name": p.body["name"], "key": p.key}
                    for p in (*world.pods.values(), *world.ended)
                ]
            elif name == "secrets":
                return [one["name"] for one in world.secrets.values()]
            elif name in ("calls", "problems"):
                return list(getattr(world, name))
            else:
                raise Refusal(404, f"no such control: {name}")
        return {}


class Double(DoubleProcess):
    """The server, started and ended by a test; `env` is what reaches it.

    Examples
    --------
    >>> double = Double()
    >>> sorted(double.env)
    ['RUNPOD_API_BASE_URL', 'RUNPOD_API_KEY']
    >>> double.close()
    """

    script = Path(__file__).absolute()

    def __init__(self, machines: Path | None = None, *, seed: int = 1) -> None:
        super().__init__("--seed", str(seed), machines=machines)
        self.start()

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which the adapter reaches it."""
        return {"RUNPOD_API_BASE_URL": self.url, "RUNPOD_API_KEY": KEY}

    def add_fault(
        self,
        do: str,
        *,
        call: str = "createPod",
        times: int = 1,
        seconds: float = 0.0,
        where: Mapping[str, Any] | None = None,
    ) -> None:
        """Script a fault of the next such calls."""
        self.control(
            "faults",
            {
                "call": call,
                "do": do,
                "times": times,
                "seconds": seconds,
                "where": dict(where or {}),
            },
        )

    def set_stock(self, left: int, *, kind: str = "", centre: str = "") -> None:
        """Set the stock of a type in a data centre; empty means each."""
        self.control("stock", {"left": left, "kind": kind, "centre": centre})

    def set(self, **settings: Any) -> None:
        """Change how the world runs (`Settings`)."""
        self.control("settings", settings)

    def calls(self, call: str = "") -> list[dict[str, Any]]:
        """Return the requests, in order."""
        return [one for one in self.control("calls") if call in ("", one["call"])]

    def reset(self) -> None:
        """Start again with an empty world; not for one with machines."""
        self.control("reset", {})

    def problems(self) -> list[str]:
        """Return what broke the contract so far."""
        found: list[str] = self.control("problems")
        return found

    def control(self, name: str, body: Any = None) -> Any:
        """One control call."""
        return self.told(name) if body is None else self.tell(name, **body)


def prepare() -> None:
    """Nothing is left to read once this module is there."""


def main(arguments: list[str] | None = None) -> None:
    """Serve until terminated."""
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--machines", type=Path)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(arguments)
    machines = Machines(given.machines) if given.machines is not None else None
    server = Server(given.port, World(given.seed, machines))
    over = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: over.set())
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    ).start()
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    over.wait()
    server.service.closing.set()
    server.shutdown()
    if machines is not None:
        machines.close()


if __name__ == "__main__":
    main()
