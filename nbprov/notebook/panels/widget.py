"""The anywidget classes of the panels.

This module imports ipywidgets, so it is itself imported only when a panel is first shown.
"""

from __future__ import annotations

import anywidget
import traitlets

from nbprov.notebook import widget_assets


class PanelWidget(anywidget.AnyWidget):
    """The base of the widgets. All else than these two traits travels as messages.

    Attributes
    ----------
    state
        The view as JSON; only the kernel writes it.
    anchor
        The mark by which the widget finds the static output above it.
    """

    state = traitlets.Dict().tag(sync=True)
    anchor = traitlets.Unicode().tag(sync=True)


class PriceTableWidget(PanelWidget):
    """Draws `widgets/price_table.js`."""

    _esm = widget_assets.packed(widget_assets.PRICE_TABLE)
    _css = widget_assets.style()


class RunPanelWidget(PanelWidget):
    """Draws `widgets/run_panel.js`."""

    _esm = widget_assets.packed(widget_assets.RUN_PANEL)
    _css = widget_assets.style()


class ClustersTableWidget(PanelWidget):
    """Draws `widgets/clusters_table.js`."""

    _esm = widget_assets.packed(widget_assets.CLUSTERS_TABLE)
    _css = widget_assets.style()
