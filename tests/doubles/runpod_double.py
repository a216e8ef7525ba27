"""RunPod's REST API v2 (and the used part of GraphQL) as a server on loopback, with scripted
faults.

    python tests/doubles/runpod_double.py --port 0 [--machines FOLDER] [--seed N]

prints `READY http://127.0.0.1:PORT`. Requests and answers are checked against runpod_schema.py;
`/_double/problems` returns what broke it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from double_main import options_of, serve
from double_process import DoubleProcess
from machines import Machines
from runpod_catalogue import KEY
from runpod_service import Raw, Service
from runpod_world import Refusal, World

from nbprov.clouds.contract.double_server import (
    DoubleAnswer,
    DoubleRequest,
    DoubleServer,
    json_answer,
)

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


class Api:
    """The service as HTTP, and its control."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def answer(self, asked: DoubleRequest) -> DoubleAnswer:
        """Answer one request."""
        try:
            status, made = self.service.answer(
                asked.method, asked.path, dict(asked.query), asked.headers, asked.body
            )
        except Refusal as refused:
            return _problem(refused)
        except Raw as odd:
            return DoubleAnswer(odd.status, odd.body, {"Content-Type": odd.kind}, cut=odd.cut)
        if not asked.path.endswith("/logs"):
            return json_answer(status, made, LIMITS)
        # Server-sent events: the existing lines, then nothing as long as the client listens.
        lines = (f"id: {line['ts']}/1\ndata: {json.dumps(line)}\n\n" for line in made)
        headers = {"Content-Type": "text/event-stream", "Connection": "close"}
        return DoubleAnswer(200, "".join(lines).encode(), headers, until=self.service.closing)

    def failed(self, words: str) -> None:
        """Note what went wrong in the double itself."""
        self.service.world.problems.append(words)

    def control(self, method: str, name: str, body: Any) -> Any:
        """Handle a control request."""
        world = self.service.world
        with world.lock:
            if name == "faults":
                where = {path: str(value) for path, value in body.get("where", {}).items()}
                world.faults.add({**body, "where": where})
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


def _problem(refused: Refusal) -> DoubleAnswer:
    problem: dict[str, Any] = {
        "title": TITLES.get(refused.status, "Error"),
        "status": refused.status,
        "detail": refused.detail,
    }
    problem |= {"errors": refused.errors} if refused.errors else {}
    headers = {**LIMITS, **refused.headers, "Content-Type": "application/problem+json"}
    return json_answer(refused.status, problem, headers)


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

    def add_fault(self, do: str, *, call: str = "createPod", **more: Any) -> None:
        """Script a fault of the next such call; `double_faults.Fault` has what more can be said."""
        self.tell("faults", call=call, do=do, **more)

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
    options = options_of("RunPod's API on loopback")
    options.add_argument("--seed", type=int, default=1)
    told = options.parse_args(arguments)
    machines = Machines(told.machines) if told.machines else None
    api = Api(Service(World(told.seed, machines)))
    server = DoubleServer(api.answer, api.failed, port=told.port, control=api.control)
    serve(server, machines, api.service.closing)


if __name__ == "__main__":
    main()
