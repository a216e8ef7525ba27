"""The three panels: the price table, the failover panel, the clusters table; and the helper that keeps a display true."""

from __future__ import annotations

from .clusters_table import ClustersTable, ClustersView
from .frontend import Host, current, has_widgets, is_interactive
from .live_display import LiveDisplay
from .panel import Panel
from .price_table import PriceTable
from .run_panel import RunPanel

__all__ = [
    "ClustersTable",
    "ClustersView",
    "Host",
    "LiveDisplay",
    "Panel",
    "PriceTable",
    "RunPanel",
    "current",
    "has_widgets",
    "is_interactive",
]
