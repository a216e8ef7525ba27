"""The local cloud of one test: its market, and its own list of machines."""

from __future__ import annotations

from pathlib import Path

from lab import ROOT

from nbprov.clouds.local import __main__ as command_line
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.rpc import Unreachable

MARKET = ROOT / "nbprov" / "clouds" / "local" / "daemon" / "market.toml"
ASK_SECONDS = 120.0


def set_market(
    home: Path,
    *,
    accept: float = 0.3,
    boot: float = 0.7,
    stocked: bool = False,
    stuck: bool = False,
    empty: bool = False,
) -> None:
    """Write the shipped market with other delays, in seconds.

    With `stocked` it is not short of stock; with `stuck` no machine ever boots; with `empty`
    there is no stock at all.
    """
    text = MARKET.read_text(encoding="utf-8")
    for name, seconds in {"accept": accept, "boot": boot}.items():
        lines = [
            f"{name} = {seconds}" if line.startswith(f"{name} =") else line
            for line in text.splitlines()
        ]
        assert lines.count(f"{name} = {seconds}") == 1, f"market.toml has no line for {name}"
        text = "\n".join(lines) + "\n"
    if stocked:
        text = text.replace("left = 0", "left = 8").replace("limit = 0", "limit = 8")
    if stuck:
        text += '\n[[faults]]\ndo = "stuck"\n'
    if empty:
        text += '\n[[faults]]\ndo = "refuse"\ncode = "InsufficientCapacity"\n'
    folder = home / "local"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "market.toml").write_text(text, encoding="utf-8")


def machines(home: Path) -> int:
    """Return how many machines the cloud itself lists as not gone, whatever the ledger says."""
    try:
        told = DaemonClient(home / "local").call("describe", timeout=ASK_SECONDS, start=False)
    except Unreachable:
        return 0  # no cloud was started
    states: dict[str, int] = told["machines"]
    return sum(count for state, count in states.items() if state != "gone")


def stop(home: Path) -> None:
    """Stop the cloud and whatever a failed test left in it."""
    assert command_line.main(["stop", "--dir", str(home / "local")]) == 0
