"""Lambda's API as a server process on loopback.

    python tests/doubles/lambda_double.py --port 0 [--machines DIR] [--launch-every 12]

prints `READY http://127.0.0.1:PORT` and serves `/api/v1/…`; `--call-every 1` limits other calls.
Machines are simulated, or real with `--machines`. Every request and every answer is checked against
`lambda_schema.py`. It is controlled under `/_double/`: faults, stock, prices, timing, preempt
(POST), calls, problems, machines (GET).
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))

from double_process import DoubleProcess
from lambda_double_world import REFUSALS, SUGGESTION, Fault, Refusal, State
from lambda_schema import wrong_answer, wrong_request
from lambda_types import KEY
from machines import Machines

PREFIX = "/api/v1"
ROUTES: list[tuple[str, re.Pattern[str], str]] = [
    ("GET", re.compile(r"/instance-types"), "types"),
    ("GET", re.compile(r"/instances"), "list"),
    ("POST", re.compile(r"/instance-operations/launch"), "launch"),
    ("POST", re.compile(r"/instance-operations/terminate"), "terminate"),
    ("GET", re.compile(r"/ssh-keys"), "keys"),
    ("POST", re.compile(r"/ssh-keys"), "add_key"),
    ("DELETE", re.compile(r"/ssh-keys/(?P<id>[^/]+)"), "delete_key"),
    ("GET", re.compile(r"/firewall-rules"), "firewall"),
]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Unbuffered writes cost a delayed ACK each.
    wbufsize = -1
    server: Server

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        raw = self.rfile.read(length := int(self.headers.get("Content-Length") or 0))
        if (
            len(raw) < length
        ):  # the client was killed in the middle: no server carries out half a request
            self.close_connection = True
            return
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = {"not": "JSON"}
        state = self.server.state
        if path.startswith("/_double/"):
            with state.lock:
                self.say(200, state.control(path.removeprefix("/_double/"), body))
            return
        for method, pattern, call in ROUTES:
            found = (
                pattern.fullmatch(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None
            )
            if found and method == self.command:
                self.answer(call, body, found.groupdict().get("id", ""))
                return
        state.problems.append(f"no such call: {self.command} {path}")
        self.say(404, envelope("global/not-found", "The requested resource was not found."))

    do_POST = do_DELETE = do_GET  # noqa: N815

    def answer(self, call: str, body: Any, named: str) -> None:
        """Answer one of Lambda's calls, faults and checks included."""
        state = self.server.state
        with state.lock:
            state.calls.append({"call": call, "body": blotted(body), "at": time.time()})
            wrong = wrong_request(call, body)
            state.problems += [f"request {call}: {text}" for text in wrong]
            fault = None if wrong else state.fault(call, body)
            slow = fault.seconds if fault and fault.do == "slow" else state.timing["answer"]
        if slow:
            self.server.closing.wait(slow)
        if fault and fault.do == "html":
            self.send(
                502, b"<html><title>502 Bad Gateway</title></html>", {"Content-Type": "text/html"}
            )
            return
        with state.lock:
            status, document, retry = self.decided(call, body, named, wrong, fault)
            state.problems += [
                f"answer {call}: {text}" for text in wrong_answer(call, status, document)
            ]
        if fault and fault.do == "lose_answer":
            self.close_connection = True
            return
        self.say(status, document, {} if retry is None else {"Retry-After": f"{retry:g}"})

    def decided(
        self, call: str, body: Any, named: str, wrong: list[str], fault: Fault | None
    ) -> tuple[int, Any, float | None]:
        """Return status, document and pause of the answer; carry the call out unless it is
        refused.
        """
        state = self.server.state
        try:
            if self.headers.get("Authorization") != f"Bearer {KEY}":
                raise Refusal(*REFUSALS["credentials"])
            if wrong:
                raise Refusal(
                    400, "global/invalid-parameters", f"Invalid request data. {'; '.join(wrong)}"
                )
            state.too_often(call)
            if fault and fault.do in REFUSALS:
                status, code, message = REFUSALS[fault.do]
                raise Refusal(status, code, fault.message or message, fault.seconds or None)
            known = {*state.made}
            data = getattr(state, f"{call}_")(body, named)
            new = [one for one in state.made.values() if one.id not in known]
            if fault and fault.do == "hide":
                for one in new:
                    one.hidden_until = time.monotonic() + fault.seconds
            if fault and fault.do == "late_failure":
                for one in new:
                    one.status = "unhealthy"
            if fault and fault.do == "half_made":
                raise Refusal(*REFUSALS["server_error"])
        except Refusal as refused:
            return refused.status, envelope(refused.code, refused.message), refused.retry_after
        return 200, {"data": data}, None

    def say(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        self.send(
            status,
            json.dumps(document).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class Server(ThreadingHTTPServer):
    """The server, with its state and the event that ends its waits."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, port: int, state: State) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.state = state
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away; record any other error as a problem."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.state.problems.append(f"the double failed: {error!r}")


def envelope(code: str, message: str) -> dict[str, Any]:
    """A refusal as Lambda writes it."""
    return {"error": {"code": code, "message": message, "suggestion": SUGGESTION}}


def blotted(body: Any) -> Any:
    """Return a request without its secrets."""
    return (
        {k: f"({len(v)} characters)" if k == "user_data" else v for k, v in body.items()}
        if isinstance(body, dict)
        else body
    )


def prepare() -> None:
    """Nothing is left to read once this module is there."""


def main(arguments: list[str] | None = None) -> int:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description="Lambda's API on loopback")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--machines", type=Path)
    parser.add_argument("--launch-every", type=float, default=0.0)
    parser.add_argument("--call-every", type=float, default=0.0)
    parser.add_argument(
        "--seed",
        default="",
        help=(
            "taken for the sake of one command line for all doubles; nothing here is random but ids"
        ),
    )
    told = parser.parse_args(arguments)
    state = State(
        Machines(told.machines) if told.machines else None, told.launch_every, told.call_every
    )
    server = Server(told.port, state)

    def end(*_: object) -> None:
        server.closing.set()
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever(poll_interval=0.05)
    finally:
        server.server_close()
        if state.machines:
            state.machines.close()
    return 0


class LambdaDouble(DoubleProcess):
    """Starts the double as a process of its own and speaks to its control routes.

    Examples
    --------
    ::

        with LambdaDouble() as double:
            os.environ |= double.env
            double.add_fault("launch", "capacity")
    """

    script = Path(__file__).absolute()

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which the adapter reaches it."""
        return {"LAMBDA_API_BASE_URL": f"{self.url}{PREFIX}", "LAMBDA_API_KEY": KEY}


if __name__ == "__main__":
    sys.exit(main())
