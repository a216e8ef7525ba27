"""What the tests of stops, starts and replacements share: markets, and a second kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tunnel_world import MARKET, WAIT_SECONDS, TunnelWorld

from nbprov import api
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.provisioning.async_cloud import AsyncCloud

FULL = '[[stock]]\ntype = "small"\nleft = 0\n'
BIG = '[[types]]\nname = "big"\nhourly = 0.2\nvcpus = 4\nmemory_gib = 8\n'
LATER = "resources: {cloud: local, instance_type: big}"


def market(world: TunnelWorld, more: str = "", *, accept: float = 0.0) -> None:
    folder = world.home / "local"
    (folder / "market.new").write_text(
        MARKET.replace("accept = 0.0", f"accept = {accept}") + more, encoding="utf-8"
    )
    (folder / "market.new").replace(folder / "market.toml")


@contextmanager
def other_kernel(world: TunnelWorld) -> Iterator[api.Session]:
    """Another session on the same home, with an engine and a ledger connection of its own."""
    session = api.Session(world.home)
    session.engine._clouds["local"] = AsyncCloud(LocalCloud(world.home / "local"))
    try:
        yield session
    finally:
        session.close()


def alive(world: TunnelWorld) -> list[str]:
    owner = world.session.engine.ledger.owner
    listed = LocalCloud(world.home / "local").list(owner)
    return [i.state.value for i in listed if i.state.value != "gone"]


def outputs(cluster: api.Cluster, code: str) -> str:
    heard: list[dict[str, Any]] = []
    cluster.cell(code, on_output=heard.append, timeout=WAIT_SECONDS)
    return "".join(str(m["content"]["text"]) for m in heard if m["msg_type"] == "stream")
