"""What machines wrote on their consoles, asked of their cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from tunnel_world import TunnelWorld

from nbprov.api.services.consoles import SHOWN_CHARACTERS
from nbprov.model.errors import UsageError
from nbprov.model.secret import Secret

pytestmark = pytest.mark.machine


def consoles_of(world: TunnelWorld) -> list[Path]:
    """The files that the daemon keeps the consoles in, by node."""
    machines = world.session.engine.ledger.instances.of_launch(token_of(world))
    folder = world.home / "local" / "i"
    return [folder / machine.id / "log" / "console.log" for machine in machines]


def token_of(world: TunnelWorld) -> str:
    """The launch of `dev`."""
    (launch,) = world.session.engine.ledger.launches.of_run(
        world.session.engine.cluster("dev").run_id
    )
    return launch.token


def test_a_console_is_safe_to_show_and_its_end_is_shown(world: TunnelWorld) -> None:
    world.up()
    consoles = world.session.services.consoles
    assert consoles.read(token_of(world)).result(30)
    world.session.context.add_secrets({"API_KEY": Secret("zebra-secret-77")})
    (file,) = consoles_of(world)
    file.write_text("first\n" * SHOWN_CHARACTERS + "the key is zebra-secret-77\x1b[2J\x07")
    text = consoles.read(token_of(world)).result(30)
    assert text.endswith("the key is ***"), text[-200:]
    assert len(text) <= SHOWN_CHARACTERS


def test_each_node_is_named(world: TunnelWorld) -> None:
    world.up(rest="\nnum_nodes: 2\n")
    for node, file in enumerate(consoles_of(world)):
        file.write_text(f"this is {node}\n")
    run_id = world.session.engine.cluster("dev").run_id
    text = world.session.services.consoles.read_cluster(run_id).result(30)
    assert text == "node 0:\nthis is 0\n\nnode 1:\nthis is 1"


def test_what_is_not_there_is_said(world: TunnelWorld) -> None:
    consoles = world.session.services.consoles
    assert consoles.read("0" * 32).result(30) == "no machine of this launch is known yet"
    with pytest.raises(UsageError, match="no machine was asked for yet"):
        consoles.read_cluster("run-0")
    world.up()
    (file,) = consoles_of(world)
    file.write_text("")
    assert "local shows no console" in consoles.read(token_of(world)).result(30)


def test_a_refusal_is_told_in_its_place(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up()
    cloud = world.session.engine.cloud("local").adapter
    monkeypatch.setattr(cloud, "console", lambda _: 1 / 0)
    assert "division by zero" in world.session.services.consoles.read(token_of(world)).result(30)
