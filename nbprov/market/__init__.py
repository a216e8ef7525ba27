"""What is in stock now, and how likely an attempt is to be accepted.

It may import the model and the cloud contract. `observations.py` holds what attempts and probes
saw, `stock_probe.py` asks clouds for their stock, `stock_index.py` looks their answers up by pool,
`stock_report.py` puts the last day beside them, and `success_model.py` makes an estimate of all of
it: start reading there.
"""

from __future__ import annotations

from nbprov.model.stock import Pool, Stock, StockLevel

from .observations import Observation
from .stock_index import StockIndex
from .success_model import SuccessModel

__all__ = ["Observation", "Pool", "Stock", "StockIndex", "StockLevel", "SuccessModel"]
