"""Clusters of the `local` cloud with a small web server each, and requests as a browser's."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nbprov import api
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.clouds.local.rpc import Unreachable
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.live_cluster import agent_of

WAIT_SECONDS = 120.0

MARKET = """
account = "test"
[timing]
accept = 0.0
boot = 0.0
end = 0.0
gone_shown = 60
idle_exit = 120
[[regions]]
name = "here"
zones = ["here-a"]
[[types]]
name = "small"
hourly = 0.1
vcpus = 2
memory_gib = 4
"""

SPEC = "resources: {cloud: local, instance_type: small%s}"

SERVER = """
import http.server, os, pathlib, time

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/half":
            self.wfile.write(b"half")
            self.wfile.flush()
            pathlib.Path("half").touch()
            while not pathlib.Path("go").exists():
                time.sleep(0.02)
        self.wfile.write(b"page of " + os.environ["WHO"].encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Page)
pathlib.Path("port.new").write_text(str(server.server_address[1]))
pathlib.Path("port.new").rename("port")
server.serve_forever()
"""


class TunnelWorld:
    """One session on a cloud of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        folder = home / "local"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "market.toml").write_text(MARKET, encoding="utf-8")
        self.session = api.Session(home)
        # The adapter finds its folder by NBPROV_HOME, which differs for each test.
        self.session.engine._clouds["local"] = AsyncCloud(LocalCloud(folder))

    def up(self, name: str = "dev", more: str = "", rest: str = "") -> api.Cluster:
        """Return a cluster that is ready."""
        run = self.session.provision(SPEC % more + rest, name)
        assert isinstance(run, api.Run)
        return run.launch().wait(WAIT_SECONDS)

    def serve(self, cluster: api.Cluster, port: int = 0) -> int:
        """Start a web server on the head of a cluster; return its port."""
        # As a job of the agent, so that it outlives connections.
        cluster.bash(
            "rm -f port go half", timeout=WAIT_SECONDS
        )  # a kept disk has the files of the last start
        script = f"exec python3 -c '{SERVER}'"
        env = {"WHO": cluster.name, "PORT": str(port or quiet_port())}
        self.session.wait_remote(
            cluster.name,
            lambda live: agent_of(live.head).run_job(script, name="web", env=env),
            WAIT_SECONDS,
        )
        return int(
            cluster.bash(
                "while [ ! -e port ]; do sleep 0.05; done; cat port", timeout=WAIT_SECONDS
            ).text
        )

    def cut(self) -> None:
        """Break all ssh connections of the engine."""
        engine = self.session.engine

        async def cut() -> None:
            for live in engine.live.values():
                for node in live.nodes:
                    agent_of(node).connection.abort()

        engine.thread.call(cut()).result(WAIT_SECONDS)

    def on_loop(self, act: Callable[[], Any]) -> Any:
        """Call something on the engine's thread."""

        async def call() -> Any:
            return act()

        return self.session.engine.thread.call(call()).result(WAIT_SECONDS)

    def close(self) -> None:
        """End everything."""
        self.session.close()
        client = DaemonClient(self.home / "local")
        with contextlib.suppress(Unreachable, OSError):
            pid = client.call("describe", timeout=WAIT_SECONDS, start=False)["pid"]
            client.call("end_all", timeout=WAIT_SECONDS, start=False)
            os.kill(
                pid, signal.SIGKILL
            )  # nothing runs any more, and ending in order would take a second


@dataclass(frozen=True)
class Served:
    """A cluster called `dev` whose web server listens on `port` of the machine."""

    world: TunnelWorld
    cluster: api.Cluster
    port: int


def engine_processes(cluster: api.Cluster) -> list[psutil.Process]:
    """Return the processes of an engine on the machines, which are this computer's."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("NBPROV_ENGINE", "").startswith(cluster.cluster_id):
                found.append(process)
    return found


def quiet_port() -> int:
    """Return a free port, with a free one after it, outside the range of outgoing connections."""
    while True:
        number = random.randint(20100, 32000)
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", number)),
            socket.create_server(("127.0.0.1", number + 1)),
        ):
            return number


def get(port: int, path: str = "/") -> str:
    """Get a page from this computer's loopback."""
    return request(port, "GET", path).decode()


def request(port: int, method: str, path: str = "/", body: bytes | None = None) -> bytes:
    """Send one request over its own connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read()
    finally:
        connection.close()


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.01)
    return found


def listens(port: int) -> bool:
    """Return whether something accepts connections on a port."""
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0
