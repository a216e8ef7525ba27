"""The messages between the agents of one cluster: their form, and what is believed of one.

A message is a datagram of at most `MESSAGE_BYTES`: a signature, and a JSON object. Beside who
speaks to whom and since when it is idle, it may name jobs: those that the sender has a part of
(`live`), or the ends of its parts (`over`).
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from typing import Any

from ..errors import RequestError
from ..json_types import Json

MESSAGE_BYTES = 512
SIGNATURE_BYTES = 32
MESSAGE_ROWS = 16
"""Jobs that one message can name: what fits into `MESSAGE_BYTES`, and some more."""
MOST_NODES = 4096
LEAST_SECRET_BYTES = 16
LONGEST_AGE = 10**10
PART_FAILURES = {
    "failed": "its part on node {} failed",
    "cancelled": "it was cancelled on node {}",
    "lost": "its part on node {} was lost: the machine there, or its agent, stopped",
    "skipped": "its part on node {} was skipped",
}
"""How a part may end badly, by its status; `ok` is the other one."""


def part_key(meta: Json) -> str:
    """Return the name by which the nodes know a job: a digest of its id and its submission."""
    text = "{}\0{}".format(meta["id"], meta["nonce"])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def encode_message(head: Json, name: str, rows: list[Json]) -> bytes:
    """Return a message with as many of the rows as fit."""
    told = [_row(name, row) for row in rows[:MESSAGE_ROWS]]
    while True:
        message = {**head, name: told} if told else head
        body = json.dumps(message, separators=(",", ":")).encode()
        if not told or len(body) + SIGNATURE_BYTES <= MESSAGE_BYTES:
            return body
        told.pop()


def _row(name: str, row: Json) -> list[Any]:
    if name == "live":
        return [row["job"], row["age"]]
    return [row["job"], row["node"], row["status"], row["code"]]


def rows_of(message: Json, name: str) -> list[tuple[str, Json]]:
    """Return the sound rows of a message, each with its job."""
    found = []
    rows = message.get(name)
    for row in rows[:MESSAGE_ROWS] if isinstance(rows, list) else []:
        if not isinstance(row, list) or not row or not isinstance(row[0], str):
            continue
        if not re.match(r"[0-9a-f]{16}\Z", row[0]):
            continue
        if name == "live" and len(row) == 2 and _is_integer(row[1], 0, LONGEST_AGE):
            found.append((row[0], {"age": row[1]}))
        elif name == "over" and len(row) == 4 and _is_end(*row[1:]):
            found.append((row[0], {"node": row[1], "status": row[2], "code": row[3]}))
    return found


def _is_end(node: Any, status: Any, code: Any) -> bool:
    """Return whether a part can end so. One that ended with 0 has done its work, not failed."""
    if not _is_integer(node, 0, MOST_NODES) or status not in ["ok", *PART_FAILURES]:
        return False
    is_contradiction = status == "failed" and code == 0
    return code is None or (_is_integer(code, -256, 256) and not is_contradiction)


def _is_integer(value: Any, least: int, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < below


def check_gang(config: Json) -> Json:
    """Return the configuration of a gang.

    Raises
    ------
    RequestError, ValueError
        If an address is none, which the system would look up for a while, or else is wrong.
    """
    nodes, rank = config["nodes"], config["rank"]
    is_list = isinstance(rank, int) and isinstance(nodes, list)
    if not is_list or not 0 <= rank < len(nodes) <= MOST_NODES:
        raise RequestError("gang", f"rank {rank!r} is none of the nodes")
    for host, port in nodes:
        ipaddress.ip_address(host)
        if not isinstance(port, int) or not 0 < port < 65536:
            raise RequestError("gang", f"{port!r} is not a port")
    if len(bytes.fromhex(config["secret"])) < LEAST_SECRET_BYTES:
        raise RequestError("gang", "the secret is too short")
    return config
