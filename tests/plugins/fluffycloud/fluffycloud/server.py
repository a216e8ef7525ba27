"""FluffyCloud itself, as far as there is one: a tiny HTTP server whose machines are sshd processes
on this computer.

    python -m fluffycloud.server --dir FOLDER [--port 0]

It speaks an API of its own in front of nbprov's `local` daemon, whose market file in FOLDER says
what there is, what is left and what goes wrong. A real cloud needs none of this; its test double
takes this place."""

from __future__ import annotations

import argparse
import json
import signal
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import AnswerLost, Refusal, Unreachable
from nbprov.model.money import MICROS_PER_USD

KEY = "fluffy-demo-key"
SECONDS = 20.0
PLENTY = 100
MOODS = {
    "pending": "baking",
    "running": "hopping",
    "stopping": "dozing-off",
    "stopped": "dozing",
    "ending": "vanishing",
    "gone": "vanished",
}
WORDS = {
    "InsufficientCapacity": (409, "out-of-fluff"),
    "QuotaExceeded": (409, "basket-full"),
    "NotOffered": (404, "no-such-size"),
    "NoSuchInstance": (404, "gone"),
    "OperationForgotten": (404, "gone"),
    "Unauthorized": (401, "who-are-you"),
    "InsufficientBalance": (402, "no-carrots-left"),
    "AccessDenied": (403, "hands-off"),
    "InvalidParameter": (400, "nonsense"),
    "IdempotentParameterMismatch": (400, "other-words-same-token"),
    "TooLate": (409, "too-late"),
    "RateExceeded": (429, "too-eager"),
    "InternalError": (503, "napping"),
    "StillStopping": (503, "napping"),
}
"""The daemon's codes, and what FluffyCloud says in their place: status and code."""


class Burrows:
    """What the server knows beside the daemon: whose machines there are, and how they are in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = DaemonClient(folder)
        self.owners: set[str] = set()
        self.tags: dict[str, dict[str, str]] = {}
        self.moods: dict[str, str] = {}
        self.page, self.empty_pages = 100, 0

    def ask(self, call: str, **arguments: Any) -> Any:
        return self.client.call(call, arguments, timeout=SECONDS)

    def machines(self, owner: str) -> list[dict[str, Any]]:
        return [
            {
                "id": row["id"],
                "token": row["token"],
                "owner": row["owner"],
                "name": row["name"],
                "node": row["node"],
                "burrow": row["region"],
                "size": row["type"],
                "usd_per_hour": row["hourly"] / MICROS_PER_USD,
                "mood": self.moods.get(row["id"], MOODS[row["state"]]),
                "host": row["host"],
                "port": row["port"],
                "since": row["launched_at"],
                "why": row["reason"],
                "by_itself": row["by_itself"],
                "tags": self.tags.get(row["token"], {}),
            }
            for row in self.ask("list", owner=owner)
        ]

    def machine_page(self, owner: str, after: str) -> dict[str, Any]:
        """One page of machines, and where the next one begins."""
        rows = [None] * (self.page * self.empty_pages) + self.machines(owner)
        start, end = int(after), int(after) + self.page
        shown = [row for row in rows[start:end] if row is not None]
        return {"machines": shown, "after": str(end) if end < len(rows) else None}

    def sizes(self) -> list[dict[str, Any]]:
        stock = tomllib.loads((self.folder / "market.toml").read_text(encoding="utf-8")).get(
            "stock", []
        )
        room = {each.get("region", ""): each["left"] for each in stock}
        alive = [
            m
            for owner in self.owners
            for m in self.machines(owner)
            if m["mood"] in ("baking", "hopping", "dozing-off")
        ]
        return [
            {
                "size": row["instance_type"],
                "burrow": row["region"],
                "gpu": row["accelerator"],
                "gpus": row["accelerator_count"],
                "vcpus": row["vcpus"],
                "memory_gb": row["memory_gib"],
                "usd_per_hour": row["hourly"] / MICROS_PER_USD,
                "left": room.get(row["region"], PLENTY)
                - sum(
                    (m["burrow"], m["size"]) == (row["region"], row["instance_type"]) for m in alive
                ),
            }
            for row in self.ask("offers")
            if row["market"] == "on-demand"
        ]

    def order(self, wish: dict[str, Any]) -> dict[str, Any]:
        self.owners.add(wish["owner"])
        self.tags[wish["token"]] = wish["tags"]
        answer = self.ask(
            "submit",
            region=wish["burrow"],
            zone=f"{wish['burrow']}-1",
            type=wish["size"],
            market="on-demand",
            disk_gb=wish["disk_gb"],
            image="",
            ports=[],
            user_data=wish["script"],
            public_key=wish["key"],
            on_shutdown=wish["when_off"],
            terminate_after=wish["end_after"],
            key=wish["order"],
            nodes=wish["nodes"],
            **{
                name: wish[name]
                for name in ("token", "owner", "name", "count", "tags", "answer_by")
            },
        )
        return {"order": answer["id"]}

    def order_state(self, token: str) -> dict[str, Any]:
        answer = self.ask("poll", token=token)
        if answer["state"] == "refused":
            status, document, pause = refusal(answer["code"], answer["message"], answer["details"])
            return {
                "state": "denied",
                "status": status,
                "body": json.dumps(document),
                "pause": pause,
            }
        return (
            {"state": "done", "ids": answer["ids"]}
            if answer["state"] == "accepted"
            else {"state": "waiting"}
        )

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
        """What is answered to a request; None where there is no such call."""
        match method, path.strip("/").split("/"):
            case "GET", ["account"]:
                return {"name": self.ask("describe")["account"], "carrots": 100}
            case "GET", ["sizes"]:
                return self.sizes()
            case "GET", ["machines"]:
                return self.machine_page(query["owner"][0], query.get("after", ["0"])[0])
            case "POST", ["machines"]:
                return self.order(body)
            case "GET", ["orders", token]:
                return self.order_state(token)
            case "POST", ["machines", ("end" | "doze" | "wake") as verb]:
                self.ask(
                    {"end": "terminate", "doze": "stop", "wake": "start"}[verb], ids=body["ids"]
                )
                return {}
            case "GET", ["machines", machine, "console"]:
                return {"text": self.ask("console", id=machine)}
            case "POST", ["_state", machine, mood]:
                self.moods[machine] = mood
                return {}
            case "POST", ["_pages", size, empty]:
                self.page, self.empty_pages = int(size), int(empty)
                return {}
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Server

    def do_GET(self) -> None:
        burrows = self.server.burrows
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = parts.path.removeprefix("/v1")
        try:
            if self.headers.get("Authorization") != f"Bearer {KEY}":
                raise Refusal("Unauthorized", "who are you?")
            told = burrows.answer(
                self.command, path, parse_qs(parts.query), json.loads(raw) if raw else None
            )
        except Refusal as refused:
            status, document, pause = refusal(refused.code, refused.message, refused.details)
            self.say(status, document, {} if pause is None else {"Retry-After": f"{pause:g}"})
            return
        except AnswerLost:
            self.close_connection = True
            return
        except Unreachable as error:
            self.say(503, {"code": "napping", "words": str(error)})
            return
        self.say(
            *(
                (200, told)
                if told is not None
                else (404, {"code": "nonsense", "words": f"no call {path}"})
            )
        )

    do_POST = do_GET  # noqa: N815

    def say(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, burrows: Burrows) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.burrows = burrows


def refusal(
    code: str, message: str, details: dict[str, Any]
) -> tuple[int, dict[str, str], float | None]:
    """Status, document and pause of a refusal in FluffyCloud's words."""
    status, word = WORDS.get(code, (418, code))
    pause = details.get("retry_after") if word == "too-eager" else None
    return status, {"code": word, "words": message}, float(pause) if pause is not None else None


def main() -> int:
    """Serve until told to end. The machines are the daemon's and outlive the server."""
    parser = argparse.ArgumentParser(description="FluffyCloud on loopback")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    told = parser.parse_args()
    burrows = Burrows(told.dir.absolute())
    server = Server(told.port, burrows)

    def end(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.05)
    server.server_close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
