"""Real machines for a double, under the name that the doubles of this folder use."""

from __future__ import annotations

from nbprov.clouds.contract.double_machines import OWNER, Machines

__all__ = ["OWNER", "Machines"]
