"""The gang: the agents of one cluster tell each other how long each machine has been idle."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import RequestError
from ..json_types import Json
from ..state_files import read_json, write_json
from ..system import boottime
from ..tasks.task import Task
from .jobs import GangJobPart, GangJobs
from .messages import MESSAGE_BYTES, SIGNATURE_BYTES, check_gang, encode_message

JOB_SECONDS = 20.0
"""Between two messages while a job of several nodes is here.

So late is a part's end learnt of whose first message was lost."""


class Peer:
    """Another machine of the cluster. Times are of this machine's own clock.

    Attributes
    ----------
    nonce, past
        What its agent calls itself, and what agents there called themselves before.
    number
        That of its last message.
    active, heard
        When it was last active, and when it was last heard of.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address: tuple[str, int] = (host, port)
        self.nonce, self.number = "", 0
        self.past: set[str] = set()
        self.active: float | None = None
        self.heard: float | None = None


class GangHeartbeat(asyncio.DatagramProtocol):
    """Tells the cluster's other machines when this one was last active, and hears the same.

    So a machine that waits while another one computes is not idle, and all of them become idle at
    the same instant, with no laptop in between. A message says when a machine itself was last
    active, never what it heard: two idle machines cannot keep each other awake, and one that died
    ages like any other. Messages are signed with a secret of the cluster. Each repeats the random
    name that the receiver's agent last gave itself, and has a number, so that an old message
    counts for nothing; no clocks are compared.

    Parameters
    ----------
    folder
        The agent's folder, which keeps who the others are.
    idle_since
        When this machine was last active, as far as its guards know.
    jobs
        The jobs of several nodes, whose ends are told too.

    Attributes
    ----------
    own
        When this machine was last active.
    here
        This machine's own address; None where the cluster has no other.
    nonce
        The random name of this agent.
    """

    def __init__(self, folder: Path, idle_since: float, jobs: GangJobs) -> None:
        self.path = folder / "gang.json"
        self.jobs = jobs
        self.own = idle_since
        self.nonce, self._number = os.urandom(8).hex(), 0
        self.transport: asyncio.DatagramTransport | None = None
        self.here: tuple[str, int] | None = None
        self._sent_at, self._sent_own, self._trouble = -math.inf, -math.inf, ""
        saved = read_json(self.path)
        try:
            self._take(check_gang(saved) if saved else {})
        except (RequestError, KeyError, TypeError, ValueError) as error:
            print(f"{self.path} is of no use: {error}", file=sys.stderr, flush=True)
            self._take({})

    def set(self, config: Json) -> None:
        """Take the addresses of now; what was heard of machines that are still there stays.

        Raises
        ------
        RequestError, ValueError
            If the configuration is wrong.
        """
        before = self.peers
        self._take(check_gang(config))
        for rank, peer in self.peers.items():
            if rank in before and before[rank].address == peer.address:
                self.peers[rank] = before[rank]
        write_json(self.path, config)

    def add_job(self, task: Task) -> None:
        """Take in a job; if it is one of several nodes its end is told to them."""
        addresses = {rank: peer.address for rank, peer in self.peers.items()}
        part = self.jobs.add(task, self.rank, addresses)
        if part is not None:
            ended = part
            task.on_end = lambda: self._send_end(ended)

    async def open(self) -> None:
        """Listen at this machine's own address, where there is anybody to hear.

        Raises
        ------
        OSError
            If the address cannot be had.
        """
        if self.transport is None and self.peers:
            loop = asyncio.get_event_loop()
            self.transport, _ = await loop.create_datagram_endpoint(
                lambda: self, local_addr=self.here
            )

    def close(self) -> None:
        """Stop listening."""
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    async def send_if_due(self, pause: float) -> None:
        """Tell the others if the last time is `pause` seconds ago, or at once after idleness.

        The network may come up after the agent, and go.
        """
        if self.jobs.live():
            pause = min(pause, JOB_SECONDS)
        is_recent = boottime() - self._sent_at < pause and self.own - self._sent_own < pause
        if not self.peers or is_recent:
            return
        try:
            await self.open()
            self.send_all()
            self._trouble = ""
        except OSError as error:
            self._sent_at = boottime()
            if str(error) != self._trouble:
                self._trouble = str(error)
                message = f"the cluster's other machines cannot be told: {error}"
                print(message, file=sys.stderr, flush=True)

    def send_all(self) -> None:
        """Tell every other machine how long this one is idle, and which jobs it has."""
        self._sent_at, self._sent_own = boottime(), self.own
        for rank, peer in self.peers.items():
            self.send(rank, peer, peer.nonce)

    def send(self, rank: int, peer: Peer, echo: str, over: list[Json] | None = None) -> None:
        """Send one machine a message, with the ends of parts or the jobs to ask it for.

        Parameters
        ----------
        echo
            What its agent calls itself.
        over
            The rows of parts that have ended here.
        """
        if self.transport is None:
            return
        self._number += 1
        idle = round(boottime() - self.own, 3)
        head = {"from": self.rank, "to": rank, "i": self.nonce, "you": echo}
        head.update(n=self._number, idle=idle)
        rows = over if over else self.jobs.asked(peer.address)
        body = encode_message(head, "over" if over else "live", rows)
        self.transport.sendto(self.sign(body) + body, peer.address)

    def sign(self, body: bytes) -> bytes:
        """Return the signature of a message's body."""
        return hmac.new(self._secret, body, hashlib.sha256).digest()

    def error_received(self, error: Exception) -> None:
        """Ignore that a machine does not listen; the next message may reach it."""

    def datagram_received(self, data: bytes, address: Any) -> None:
        """Take a message. One that is not signed is not looked at, and gets no answer."""
        signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        if len(data) > MESSAGE_BYTES or not hmac.compare_digest(signature, self.sign(body)):
            return
        try:
            message = json.loads(body)
            rank, name = int(message["from"]), str(message["i"])
            number, idle = int(message["n"]), float(message["idle"])
            is_mine, is_fresh = message["to"] == self.rank, message["you"] == self.nonce
        except (KeyError, TypeError, ValueError, OverflowError):
            return
        peer = self.peers.get(rank)
        if peer is None or not is_mine or not 0 <= idle < math.inf:
            return
        if not is_fresh:
            # Its agent does not know this one's name, or the message is old: say the name, and
            # believe what comes then.
            self.send(rank, peer, name)
            return
        if name != peer.nonce and name not in peer.past:
            peer.past.add(peer.nonce)
            peer.nonce, peer.number = name, 0
        if name == peer.nonce and number > peer.number:
            self._believe(rank, peer, number, idle, message)

    def last_active(self) -> float:
        """Return when any of the others was last active, as far as was heard."""
        active = [peer.active for peer in self.peers.values() if peer.active is not None]
        return max(active, default=-math.inf)

    def check_silence(self) -> None:
        """Count the silence of machines that have parts of jobs here."""
        self.jobs.check_silence({peer.address: peer.heard for peer in self.peers.values()})

    def info(self) -> list[Json]:
        """Return, for each other machine, how long ago it was heard of and was active."""
        now = boottime()
        return [
            {
                "node": rank,
                "heard": None if peer.heard is None else now - peer.heard,
                "idle": None if peer.active is None else now - peer.active,
            }
            for rank, peer in self.peers.items()
        ]

    def _take(self, config: Json) -> None:
        before = self.here
        self.rank: int = int(config.get("rank", 0))
        self._secret = bytes.fromhex(config.get("secret", ""))
        nodes = [Peer(host, port) for host, port in config.get("nodes", [])]
        self.here = nodes[self.rank].address if nodes else None
        if self.here != before:
            # Only then: a socket closes a little later, and its address is not free at once.
            self.close()
        others = {rank: node for rank, node in enumerate(nodes) if rank != self.rank}
        self.peers: dict[int, Peer] = others

    def _believe(self, rank: int, peer: Peer, number: int, idle: float, message: Json) -> None:
        is_first, peer.number, peer.heard = peer.heard is None, number, boottime()
        peer.active = max(peer.heard - idle, -math.inf if peer.active is None else peer.active)
        if is_first:
            self.send(rank, peer, peer.nonce)
        over = self.jobs.receive(peer.address, message, self.rank)
        if over:
            self.send(rank, peer, peer.nonce, over)

    def _send_end(self, part: GangJobPart) -> None:
        for rank, peer in self.peers.items():
            if peer.address in part.others:
                self.send(rank, peer, peer.nonce, [part.row()])
