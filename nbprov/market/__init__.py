"""What is in stock now and how likely an attempt is to be accepted.

`observations.py` holds what was seen (attempts and probes), `said.py` what clouds say of their stock, `probing.py` asks them, and
`chances.py` is the estimate made of all.
"""

from __future__ import annotations

from nbprov.model.stock import Level, Pool, Stock

from .observations import Observation
from .stock_index import Said
from .success_model import Chances

__all__ = ["Chances", "Level", "Observation", "Pool", "Said", "Stock"]
