"""Pebble's API on loopback, with real machines: what the tests talk to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from nbprov.clouds.contract.json_double import (
    DoubleMachine,
    DoubleRefusal,
    DoubleRequest,
    JsonDouble,
)

KEY = "pebble-demo-key-0001"
TYPES = {"p-l40s": (90, "L40S", 1, 8, 64, "north"), "p-cpu": (5, "", 0, 2, 8, "south")}


def error(code: str, words: str = "a sentence of Pebble") -> dict[str, Any]:
    return {"error": {"code": code, "message": words}}


class PebbleDouble(JsonDouble):
    """Translates between the API's documents and the machines that every double has."""

    states: ClassVar[Mapping[str, str]] = {
        "pending": "booting",
        "running": "up",
        "stopping": "halting",
        "stopped": "halted",
        "ending": "ending",
        "gone": "ending",
    }
    out_of_stock = (409, error("sold_out"))

    def cents(self, kind: str) -> float:
        return TYPES[kind][0] * self.price_factor

    def box(self, made: DoubleMachine) -> dict[str, Any]:
        state, host, port = self.look(made)
        usual = {"nbprov-login": self.machines.login(), "nbprov-ssh-port": str(port)}
        return {
            "id": made.id,
            "name": made.fields["name"],
            "type": made.kind,
            "region": made.region,
            "state": state,
            "ip": host,
            "labels": {**usual, **made.fields["labels"]},
            "created_ms": made.born * 1000,
            "cents_per_hour": self.cents(made.kind),
        }

    def answer(self, asked: DoubleRequest) -> Any:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            raise DoubleRefusal(401, error("bad_key"))
        match asked.method, asked.path.strip("/").split("/"):
            case "GET", ["account"]:
                return {"email": "me@pebble.example"}
            case "GET", ["types"]:
                names = ("gpu", "gpus", "cpus")
                return [
                    {
                        "name": name,
                        "cents_per_hour": self.cents(name),
                        **dict(zip(names, row[1:4], strict=True)),
                        "ram_mb": row[4] * 1024,
                        "left": {row[5]: self.left.get((name, row[5]), 99)},
                    }
                    for name, row in TYPES.items()
                ]
            case "GET", ["boxes"]:
                rows, after = self.page(self.listed(), asked.query.get("cursor", ""))
                return {"boxes": [self.box(row) for row in rows], "next": after}
            case "POST", ["boxes"]:
                wish = asked.body
                made = self.create(
                    wish["type"],
                    wish["region"],
                    wish,
                    user_data=wish["user_data"],
                    on_poweroff="stop",
                )
                return {"id": made.id}
            case ("DELETE", ["boxes", one]) if self.end(one):
                return None
            case ("POST", ["boxes", one, "halt"]) if self.stop(one):
                return None
            case ("POST", ["boxes", one, "resume"]) if self.start(one):
                return None
        raise DoubleRefusal(404, error("gone"))
