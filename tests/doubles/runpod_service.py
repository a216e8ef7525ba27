"""The operations of RunPod's double: REST v2, and the used part of GraphQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from double_faults import Fault
from runpod_catalogue import GPUS
from runpod_schema import answer_faults, operation_of, request_faults
from runpod_world import CAPACITY, CENTRES, CPU, Refusal, World

from nbprov.clouds.contract.double_server import HangUp

POD_KEY_MAY = ("getPod", "podAction", "deletePod")
HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)
SECRET_NAMES = ("PUBLIC_KEY", "NBPROV_START")


class Raw(Exception):
    """An answer that is not JSON."""

    def __init__(self, status: int, body: bytes, kind: str, cut: int | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.kind, self.cut = status, body, kind, cut


class Service:
    """The operations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closing = threading.Event()

    def answer(
        self, method: str, path: str, params: dict[str, str], headers: Mapping[str, str], body: Any
    ) -> tuple[int, Any]:
        """One request, answered."""
        operation, thing = ("graphql", "") if path == "/graphql" else operation_of(method, path)
        if not operation:
            raise Refusal(404, "no such path")
        self._note(operation, path, params, body)
        who = self.world.account_of(headers.get("authorization", ""))
        if not who:
            raise Refusal(
                401,
                "missing bearer token" if not headers.get("authorization") else "invalid API key",
            )
        if (
            who != "account"
            and not (operation in POD_KEY_MAY and thing == who)
            and operation != "graphql"
        ):
            raise Refusal(403, "access denied")
        fault = self.world.fault(operation, {"id": thing, "params": params, "body": body})
        if fault is not None and fault.do not in (
            "lose_answer",
            "half_made",
            "late_failure",
            "hide",
            "cut",
            "slow",
        ):
            raise scripted(fault)
        if fault is not None and fault.do == "slow":
            self.closing.wait(fault.seconds)
        if operation == "graphql":
            return 200, self._graphql(body, who)
        wrong = request_faults(operation, params, body)
        if wrong:
            self.world.problems.append(f"request {operation}: {'; '.join(wrong)}")
            raise Refusal(422, "Request validation failed.", wrong)
        status, made = getattr(self, operation)(unquote(thing), params, body, fault)
        self._check(operation, status, made)
        if fault is not None and fault.do == "lose_answer":
            raise HangUp
        if fault is not None and fault.do == "half_made":
            raise Refusal(500, "Something went wrong. Please try again later or contact support.")
        if fault is not None and fault.do == "cut":
            raise Raw(status, json.dumps(made).encode(), "application/json", cut=40)
        return status, made

    def _note(self, operation: str, path: str, params: dict[str, str], body: Any) -> None:
        shown = json.loads(json.dumps(body))
        if isinstance(shown, dict):
            for name in [n for n in shown.get("env", {}) if n in SECRET_NAMES]:
                shown["env"][name] = "•••"
            for name in ("value", "args"):
                if name in shown:
                    shown[name] = "•••"
        with self.world.lock:
            self.world.calls.append(
                {
                    "call": operation,
                    "path": path,
                    "params": params,
                    "body": shown,
                    "at": time.time(),
                }
            )

    def _check(self, operation: str, status: int, made: Any) -> None:
        if operation == "getPodLogs":
            return
        for wrong in answer_faults(operation, status, made):
            if "is not one of ['PROVISIONING'" not in wrong:  # an unknown state is set on purpose
                self.world.problems.append(f"answer {operation} {status}: {wrong}")

    def _paged(
        self, name: str, items: list[Any], params: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        size = min(int(params.get("limit", 1000)), self.world.settings.page)
        if name == "pods":
            items = [None] * (size * self.world.settings.empty_pages) + items
        first = int(params.get("cursor", "c0")[1:])
        more = first + size < len(items)
        page = {"nextCursor": f"c{first + size}" if more else None, "hasNextPage": more}
        shown = [item for item in items[first : first + size] if item is not None]
        return 200, {name: shown, "pagination": page}

    def listPods(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        return self._paged("pods", [self.world.shown(pod) for pod in self.world.listed()], params)

    def createPod(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        do, seconds = (fault.do, fault.seconds) if fault is not None else ("", 0.0)
        pod = self.world.create(
            body, hidden=seconds if do == "hide" else 0.0, fails=do == "late_failure"
        )
        return 201, self.world.shown(pod)

    def getPod(
        self, thing: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        return 200, self.world.shown(self.world.get(thing))

    def deletePod(
        self, thing: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        self.world.end(thing)
        return 204, None

    def podAction(
        self, thing: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        pod = self.world.act(thing, body["action"])
        return (204, None) if pod is None else (200, self.world.shown(pod))

    def getPodLogs(
        self, thing: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        lines = self.world.console(self.world.get(thing))[-int(params.get("tail", 100)) :]
        return 200, [
            {"source": "container", "ts": "2026-11-22T09:00:00Z", "line": line} for line in lines
        ]

    def listSecrets(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        self._secrets()
        shown = [
            {name: value for name, value in one.items() if name != "value"}
            for one in self.world.secrets.values()
        ]
        return self._paged("secrets", shown, params)

    def createSecret(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        self._secrets()
        with self.world.lock:
            if any(one["name"] == body["name"] for one in self.world.secrets.values()):
                raise Refusal(409, "A secret with this name already exists.")
            made = {
                "id": f"s{self.world.random.getrandbits(48):012x}",
                "createdAt": "2026-11-22T09:00:00Z",
                "description": "",
                **body,
            }
            self.world.secrets[made["id"]] = made
        return 201, {name: value for name, value in made.items() if name != "value"}

    def deleteSecret(
        self, thing: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        if self.world.secrets.pop(thing, None) is None:
            raise Refusal(404, "secret not found")
        return 204, None

    def _secrets(self) -> None:
        if self.world.settings.secrets != "yes":
            raise Refusal(403 if self.world.settings.secrets == "denied" else 404, "access denied")

    def listGpuTypes(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        made = []
        for name, (said, memory, secure, community, _spot, most) in GPUS.items():
            price = {"secure": secure * self.world.settings.price_factor, "community": community}
            one: dict[str, Any] = {
                "id": name,
                "name": said,
                "pool": None,
                "manufacturer": "NVIDIA",
                "memory": memory,
                "secure": True,
            }
            one |= {"community": True, "price": price, "maxCount": {"secure": most, "community": 4}}
            made.append(one | self._available(name, params, int(params.get("count", 1))))
        return self._paged("gpus", made, params)

    def listCpuTypes(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        one = {name: value for name, value in CPU.items() if name != "each"}
        price = {
            "securePerVcpu": CPU["each"] * self.world.settings.price_factor,
            "serverlessPerVcpu": 0.02,
        }  # type: ignore[operator]
        return self._paged(
            "cpus", [one | {"price": price} | self._available("cpu5c", params, 1)], params
        )

    def _available(self, kind: str, params: dict[str, str], count: int) -> dict[str, Any]:
        if params.get("include") != "AVAILABILITY":
            return {}
        levels = {centre: self.world.level(kind, centre, count) for centre in CENTRES}
        there = [
            {"id": centre, "name": centre.title(), "availability": level}
            for centre, level in levels.items()
            if level != "NONE"
        ]
        order = ("NONE", "LOW", "MEDIUM", "HIGH")
        overall = max(levels.values(), key=order.index)
        return {"availability": overall, **({"dataCenters": there} if there else {})}

    def listDataCenters(
        self, _: str, params: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, Any]:
        wanted, made = params.get("include", "").split(","), []
        for centre, region in CENTRES.items():
            one: dict[str, Any] = {
                "id": centre,
                "name": centre.title(),
                "region": region,
                "networkVolumeTypes": [],
                "compliance": [],
            }
            one["globalNetwork"] = False
            if "GPU_AVAILABILITY" in wanted:
                one["gpuAvailability"] = [
                    {"id": g, "name": GPUS[g][0], "availability": self.world.level(g, centre, 1)}
                    for g in GPUS
                ]
            if "CPU_AVAILABILITY" in wanted:
                one["cpuAvailability"] = [
                    {
                        "id": "cpu5c",
                        "name": str(CPU["name"]),
                        "availability": self.world.level("cpu5c", centre, 1),
                    }
                ]
            made.append(one)
        return self._paged("dataCenters", made, params)

    def _graphql(self, body: Any, who: str) -> dict[str, Any]:
        """Answer queries for the balance, from a pod that ends itself, and from the `runpod`
        package.
        """
        query = str(body.get("query", "")) if isinstance(body, dict) else ""
        settings = self.world.settings
        for name, action in (("podTerminate", "terminate"), ("podStop", "stop")):
            if name in query:
                pod_id = query.partition('podId: "')[2].partition('"')[0]
                if who not in ("account", pod_id):
                    return {
                        "errors": [
                            {"message": "access denied", "extensions": {"code": "FORBIDDEN"}}
                        ],
                        "data": None,
                    }
                try:
                    pod = self.world.act(pod_id, action)
                except Refusal as refused:
                    return {
                        "errors": [{"message": refused.detail, "extensions": {"code": "RUNPOD"}}],
                        "data": None,
                    }
                return {
                    "data": {
                        name: None if pod is None else {"id": pod.id, "desiredStatus": "EXITED"}
                    }
                }
        if "myself" in query and who == "account":
            me = {
                "id": "user_double",
                "pubKey": "",
                "networkVolumes": [],
                "pods": [{"id": p.id} for p in self.world.listed()],
            }
            money = {
                "clientBalance": settings.balance,
                "currentSpendPerHr": 0.0,
                "spendLimit": settings.spend_limit,
            }
            return {"data": {"myself": me | money}}
        return {
            "errors": [
                {"message": "Something went wrong. Please try again later or contact support."}
            ],
            "data": None,
        }


def scripted(fault: Fault) -> Exception:
    """Return the refusal of a scripted fault, in RunPod's own words if they are known."""
    wait = {"Retry-After": str(int(fault.seconds or 3))}
    refusals = {
        "capacity": Refusal(400, CAPACITY),
        "spot": Refusal(400, CAPACITY),
        "quota": Refusal(400, "This would exceed your account's spend limit of $80 per hour."),
        "credentials": Refusal(401, "invalid API key"),
        "balance": Refusal(402, "Insufficient balance: at least one hour of credits is required."),
        "permission": Refusal(403, "access denied"),
        "bad_request": Refusal(
            422, "Request validation failed.", ["$.image: does not match the contract"]
        ),
        "not_offered": Refusal(404, "GPU type not found"),
        "rate_limit": Refusal(429, "rate limit exceeded for the minute window", headers=wait),
        "transient": Refusal(503, "the service is temporarily unavailable"),
        "rule": Refusal(400, "request could not be processed"),
    }
    return Raw(502, HTML, "text/html") if fault.do == "html" else refusals[fault.do]
