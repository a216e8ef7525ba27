"""Google Compute Engine on loopback, made from the official Discovery document.

    python tests/doubles/gcp_double.py --port 0 [--machines DIR] [--accept S] [--boot S]

prints `READY http://127.0.0.1:PORT`; `--speed N` lets its clock run faster. Requests and answers
are checked against the document. State is in memory. It is controlled under `/_double/`: `faults`,
`stock`, `preempt`, `set`; `calls` returns its requests and `problems` what broke the model.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from double_main import options_of, serve
from double_process import DoubleProcess
from gcp_double_calls import Calls
from gcp_double_faults import Refusal, refusal
from gcp_double_model import FREE, Method, model
from gcp_double_world import World
from machines import Machines

from nbprov.clouds.contract.double_server import (
    DoubleAnswer,
    DoubleRequest,
    DoubleServer,
    HangUp,
    json_answer,
)

PROJECT = "nbprov-test"
OTHER_PROJECT = "nbprov-other"
"""A second, empty project of the same user."""
HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)


class Double:
    """The service, which answers one request at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[dict[str, Any]] = []
        self.hang = 0.0
        self.api = Calls(world)

    def answer(self, asked: DoubleRequest) -> DoubleAnswer:
        """Answer one request."""
        query, is_known = asked.query, asked.path.startswith(model().prefix)
        found = model().match(asked.method, asked.path) if is_known else None
        if found is None:
            self.world.problems.append(f"no such method: {asked.method} {asked.path}")
            return json_answer(404, Refusal(404, "notFound", "Not Found").body())
        method, places = found
        try:
            body = self._read(method, asked.raw, query)
            place = self._place(places, body)
            return self._served(
                method, {**query, **places}, body, place, asked.headers.get("authorization", "")
            )
        except Refusal as refused:
            return json_answer(refused.status, refused.body(), refused.headers)

    def failed(self, words: str) -> None:
        """Note what went wrong in the double itself."""
        self.world.problems.append(words)

    def _served(
        self, method: Method, params: dict[str, str], body: Any, place: dict[str, str], bearer: str
    ) -> DoubleAnswer:
        time.sleep(self.hang)
        if params.get("project") == OTHER_PROJECT:
            told = self._elsewhere(method)
            self.world.problems += [
                f"answer: {f}" for f in model().faults(method.response, told, method.name)
            ]
            return json_answer(200, told)
        with self.world.lock:
            self.calls.append(
                {
                    "call": method.name,
                    "params": params,
                    "body": _blotted(body),
                    "bearer": _hash(bearer),
                }
            )
            fault = self.world.fault(method.name, place)
        if fault and fault.do == "slow":
            time.sleep(fault.seconds)
        if fault and fault.do == "html":
            return DoubleAnswer(502, HTML, {"Content-Type": "text/html; charset=UTF-8"})
        if fault and fault.do in (
            "credentials",
            "balance",
            "permission",
            "not_enabled",
            "bad_request",
            "not_offered",
            "rate_limit",
            "transient",
        ):
            raise refusal(fault.do, place, fault.seconds)
        waits = method.name == "zoneOperations.wait"
        end = time.monotonic() + 2.0
        while True:
            with self.world.lock:
                self.world.tick()
                told = self.api.run(method.name, params, body, place, fault)
            if not waits or told.get("status") == "DONE" or time.monotonic() > end:
                break
            time.sleep(0.02)
        faults = model().faults(method.response, told, method.name)
        if faults:
            self.world.problems += [f"answer: {f}" for f in faults]
        if fault and fault.do == "lose_answer":
            raise HangUp
        return json_answer(200, told)

    def _elsewhere(self, method: Method) -> Any:
        """Answer for the empty project."""
        found = {
            "instances.aggregatedList": {
                "kind": "compute#instanceAggregatedList",
                "id": "x",
                "items": {},
            },
            "disks.aggregatedList": {"kind": "compute#diskAggregatedList", "id": "x", "items": {}},
            "firewalls.list": {"kind": "compute#firewallList", "id": "x"},
            "projects.get": {"kind": "compute#project", "id": "2", "name": OTHER_PROJECT},
        }.get(method.name)
        if found is None:
            raise Refusal(
                404, "notFound", f"The resource 'projects/{OTHER_PROJECT}/x' was not found"
            )
        return found

    def _read(self, method: Method, raw: bytes, query: Mapping[str, str]) -> Any:
        faults = [
            f"unknown parameter {name!r} of {method.name}"
            for name in query
            if name not in method.parameters and name not in FREE
        ]
        body = None
        if raw and method.request:
            body = json.loads(raw)
            faults += model().faults(method.request, body, "resource", method.name)
        elif method.request:
            faults.append(f"{method.name} wants a {method.request}")
        if faults:
            self.world.problems += [f"request: {f}" for f in faults]
            raise Refusal(400, "invalid", f"Invalid JSON payload received. {faults[0]}")
        return body

    def _place(self, places: Mapping[str, str], body: Any) -> dict[str, str]:
        wanted = (
            (body or {}).get("instanceProperties", body or {}) if isinstance(body, dict) else {}
        )
        zone = places.get("zone", "")
        found = {**places, "region": places.get("region") or zone.rpartition("-")[0]}
        if isinstance(wanted, dict) and "machineType" in wanted:
            found["type"] = str(wanted["machineType"]).rpartition("/")[2]
            found["market"] = (
                "spot"
                if wanted.get("scheduling", {}).get("provisioningModel") == "SPOT"
                else "on-demand"
            )
            found["name"] = str(body.get("name", ""))
        return found

    def control(self, _: str, what: str, told: Any) -> Any:
        """Handle a control request."""
        if what == "reset":
            self._reset()
        world = self.world
        with world.lock:
            world.tick()
            if what == "faults":
                if told.get("do") == "hide":
                    world.hidden = float(told.get("seconds", 1.0))
                else:
                    world.faults.add(told)
            elif what == "stock":
                self._stock(told)
            elif what == "preempt":
                for (zone, name), row in world.rows.items():
                    if told.get("id") in (None, f"{zone}/{name}"):
                        world.take_back((zone, name), row, "preempted", told.get("seconds", 0.0))
            elif what == "set":
                self._set(told)
            elif what == "reset":
                return {}
            elif what == "poweroff":
                world.power_off(told["id"])
            elif what == "machine":
                return {"machine": world.bodies.get(told["id"], "")}
            elif what == "calls":
                return self.calls
            elif what == "problems":
                return world.problems
            elif what == "state":
                return {
                    "firewalls": world.firewalls,
                    "disks": [*world.disks.values()],
                    "machines": [r.data | {"metadata": None} for r in world.rows.values()],
                }
            else:
                raise KeyError(what)
        return {}

    def _reset(self) -> None:
        """Start again with an empty world, for simulated machines."""
        old = self.world
        assert old.machines is None, "real machines are ended one by one"
        self.world = World(PROJECT, None, accept=old.accept, boot=old.boot, speed=old.speed)
        self.api, self.calls, self.hang = Calls(self.world), [], 0.0

    def _stock(self, told: Mapping[str, Any]) -> None:
        world = self.world
        world.quotas |= told.get("quotas", {})
        world.project_quotas |= told.get("project_quotas", {})
        if "obtainability" in told:
            world.obtainability[told.get("zone", "")] = told["obtainability"]
        if "left" in told:
            world.left[told.get("zone", ""), told.get("type", "")] = told["left"]

    def _set(self, told: Mapping[str, Any]) -> None:
        self.hang = told.get("hang", self.hang)
        self.world.end = told.get("end", self.world.end)
        self.world.page = told.get("page", self.world.page)
        self.world.empty_pages = told.get("empty_pages", self.world.empty_pages)
        if rule := told.get("rule"):  # a rule made by a person
            self.world.firewalls[rule["name"]] = {
                **rule,
                "kind": "compute#firewall",
                "id": self.world.number(),
            }
        if "tag" in told:
            zone, _, name = told["id"].partition("/")
            self.world.rows[zone, name].data["tags"]["items"].append(told["tag"])
        if "stopped" in told:
            zone, _, name = told["id"].partition("/")
            self.world.rows[zone, name].data["lastStopTimestamp"] = told["stopped"]
        if told.get("guest_off"):
            zone, _, name = told["id"].partition("/")
            self.world.guest_off((zone, name), self.world.rows[zone, name])
        if "status" in told:
            zone, _, name = told["id"].partition("/")
            row = self.world.rows[zone, name]
            row.data["status"] = told["status"]
            row.limit_at = None


def _hash(bearer: str) -> str:
    """Hash a token, so that tokens can be compared without being stored."""
    return hashlib.sha256(bearer.encode()).hexdigest() if bearer else ""


def _blotted(body: Any) -> Any:
    """Remove the secrets from a body: the values of metadata."""
    if isinstance(body, dict):
        return {k: "•••" if k == "value" else _blotted(v) for k, v in body.items()}
    return [_blotted(v) for v in body] if isinstance(body, list) else body


def prepare() -> None:
    """Read Google's document, as a parent may do once for all doubles."""
    model()


def main(arguments: list[str] | None = None) -> None:
    """Serve until terminated."""
    parser = options_of("Google Compute Engine on loopback")
    parser.add_argument("--accept", type=float, default=0.02)
    parser.add_argument("--boot", type=float, default=0.05)
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        help="how many times faster time limits of machines pass",
    )
    told = parser.parse_args(arguments)
    prepare()
    machines = Machines(told.machines) if told.machines else None
    double = Double(World(PROJECT, machines, accept=told.accept, boot=told.boot, speed=told.speed))
    server = DoubleServer(double.answer, double.failed, port=told.port, control=double.control)
    serve(server, machines)


class GcpDouble(DoubleProcess):
    """The double as a process of its own, for tests.

    Examples
    --------
    ::

        with GcpDouble() as double:
            os.environ.update(double.env)
            double.add_fault(call="create", do="capacity", where={"zone": "us-central1-a"})
    """

    script = Path(__file__).absolute()

    def __init__(self, machines: Path | None = None, **options: float) -> None:
        words = [w for name, value in options.items() for w in (f"--{name}", str(value))]
        super().__init__(*words, machines=machines)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which the adapter reaches it."""
        return {
            "NBPROV_GCP_ENDPOINT": self.url,
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "NBPROV_MY_ADDRESS": "127.0.0.1",
        }

    @property
    def problems(self) -> list[str]:
        """Return what broke the official model, in requests or answers."""
        found: list[str] = self.told("problems")
        return found

    def calls(self, name: str = "") -> list[dict[str, Any]]:
        """Return its requests, of one method or all."""
        return [c for c in self.told("calls") if not name or c["call"] == name]


if __name__ == "__main__":
    main()
