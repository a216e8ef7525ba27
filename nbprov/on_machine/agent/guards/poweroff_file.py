"""How the machine powers itself off, in a file beside the guards: known also where those are lost.

The start script writes it at the first boot, and the agent whenever it is told guards.
"""

from __future__ import annotations

from pathlib import Path

from ..json_types import Json
from ..state_files import read_json, write_json
from .config import MODES

POWEROFF_FILE = "poweroff.json"
USUAL = {"poweroff": "sudo -n poweroff", "mode": "terminate"}
"""Where the file is of no use, on a machine that our start script made ours."""


def read_poweroff(folder: Path) -> Json | None:
    """Return the `poweroff` command and the `mode` that it is given.

    None where no way is known: what nbprov did not make, it must not power off by a guess.
    """
    saved = read_json(folder / POWEROFF_FILE) or {}
    if saved.get("poweroff") and isinstance(saved["poweroff"], str) and saved.get("mode") in MODES:
        return saved
    return USUAL if (folder / "boot.id").exists() else None


def write_poweroff(folder: Path, config: Json) -> None:
    """Keep how a configuration ends the machine: by its idle guard, else by its budget."""
    if not config.get("poweroff"):
        return
    rule = config if config.get("idle_seconds") else config.get("budget") or {}
    wanted = {"poweroff": config["poweroff"], "mode": rule.get("mode", "terminate")}
    if read_json(folder / POWEROFF_FILE) != wanted:
        write_json(folder / POWEROFF_FILE, wanted)
