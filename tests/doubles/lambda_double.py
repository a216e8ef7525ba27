"""Lambda's API as a server process on loopback.

    python tests/doubles/lambda_double.py --port 0 [--machines DIR] [--launch-every 12]

prints `READY http://127.0.0.1:PORT` and serves `/api/v1/…`; `--call-every 1` limits other calls.
Machines are simulated, or real with `--machines`. Every request and every answer is checked against
`lambda_schema.py`. It is controlled under `/_double/`: faults, stock, prices, timing, preempt
(POST), calls, problems, machines (GET).
"""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from double_faults import Fault
from double_main import options_of, serve
from double_process import DoubleProcess
from lambda_double_world import REFUSALS, SUGGESTION, Refusal, State
from lambda_schema import wrong_answer, wrong_request
from lambda_types import KEY
from machines import Machines

from nbprov.clouds.contract.double_server import (
    DoubleAnswer,
    DoubleRequest,
    DoubleServer,
    HangUp,
    json_answer,
)

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


class Service:
    """Answers requests from the state, faults and checks included."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.closing = threading.Event()

    def answer(self, asked: DoubleRequest) -> DoubleAnswer:
        """Answer one request."""
        path = asked.path.removeprefix(PREFIX) if asked.path.startswith(PREFIX) else ""
        for method, pattern, call in ROUTES:
            found = pattern.fullmatch(path)
            if found and method == asked.method:
                return self._called(call, asked, found.groupdict().get("id", ""))
        self.state.problems.append(f"no such call: {asked.method} {asked.path}")
        refusal = envelope("global/not-found", "The requested resource was not found.")
        return json_answer(404, refusal)

    def _called(self, call: str, asked: DoubleRequest, named: str) -> DoubleAnswer:
        state, body = self.state, asked.body
        with state.lock:
            state.calls.append({"call": call, "body": blotted(body), "at": time.time()})
            wrong = wrong_request(call, body)
            state.problems += [f"request {call}: {text}" for text in wrong]
            fields = body if isinstance(body, dict) else {}
            fault = None if wrong else state.faults.take(call, fields.get)
            slow = fault.seconds if fault and fault.do == "slow" else state.timing["answer"]
        if slow:
            self.closing.wait(slow)
        if fault and fault.do == "html":
            page = b"<html><title>502 Bad Gateway</title></html>"
            return DoubleAnswer(502, page, {"Content-Type": "text/html"})
        with state.lock:
            status, document, retry = self._decided(call, asked, named, wrong, fault)
            state.problems += [
                f"answer {call}: {text}" for text in wrong_answer(call, status, document)
            ]
        if fault and fault.do == "lose_answer":
            raise HangUp
        return json_answer(status, document, {} if retry is None else {"Retry-After": f"{retry:g}"})

    def _decided(
        self, call: str, asked: DoubleRequest, named: str, wrong: list[str], fault: Fault | None
    ) -> tuple[int, Any, float | None]:
        """Return status, document and pause of the answer; carry the call out unless it is
        refused.
        """
        state = self.state
        try:
            if asked.headers.get("authorization") != f"Bearer {KEY}":
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
            data = getattr(state, f"{call}_")(asked.body, named)
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

    def control(self, _: str, name: str, body: Any) -> Any:
        """Handle a control request."""
        with self.state.lock:
            return self.state.control(name, body)


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


def main(arguments: list[str] | None = None) -> None:
    """Serve until terminated."""
    parser = options_of("Lambda's API on loopback")
    parser.add_argument("--launch-every", type=float, default=0.0)
    parser.add_argument("--call-every", type=float, default=0.0)
    told = parser.parse_args(arguments)
    machines = Machines(told.machines) if told.machines else None
    service = Service(State(machines, told.launch_every, told.call_every))
    failed = service.state.problems.append
    server = DoubleServer(service.answer, failed, port=told.port, control=service.control)
    serve(server, machines, service.closing)


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
    main()
