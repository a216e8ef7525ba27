"""What is in stock now and how likely an attempt is to be accepted.

`observations.py` holds what was seen (attempts and probes), `said.py` what clouds say of their stock, `probing.py` asks them, and
`chances.py` is the estimate made of all.
"""

from __future__ import annotations

from nbprov.model.stock import Level, Pool, Stock

from .chances import Chances
from .observations import Observation
from .said import Said

__all__ = ["Chances", "Level", "Observation", "Pool", "Said", "Stock"]
