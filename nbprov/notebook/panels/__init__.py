"""The live panels: the price table, the run panel, the clusters table and the dashboard.

`panel.Panel` is the base of all of them and `live_display.LiveDisplay` shows one in a cell; start
reading there. The static HTML and text come from `rendering`, the browser's code from `widgets/`.
Modules here may import `rendering` and `api`, and only `widget` imports ipywidgets.
"""

from __future__ import annotations

from .clusters_table import ClustersTable, ClustersView
from .frontend import Frontend, current, has_widgets, is_interactive
from .live_display import LiveDisplay
from .panel import Panel
from .price_table import PriceTable
from .provision_form import ProvisionForm
from .run_panel import RunPanel

__all__ = [
    "ClustersTable",
    "ClustersView",
    "Frontend",
    "LiveDisplay",
    "Panel",
    "PriceTable",
    "ProvisionForm",
    "RunPanel",
    "current",
    "has_widgets",
    "is_interactive",
]
