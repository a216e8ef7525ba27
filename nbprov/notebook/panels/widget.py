"""The one anywidget class behind all panels. Imports ipywidgets, so it is itself imported only when a panel is first shown."""

from __future__ import annotations

import anywidget
import traitlets

from nbprov.notebook import widget_assets


class PanelWidget(anywidget.AnyWidget):
    """A widget with one trait that the kernel writes, and one that names the static output beside it; all else are messages."""

    state = traitlets.Dict().tag(sync=True)
    anchor = traitlets.Unicode().tag(sync=True)


class PriceTableWidget(PanelWidget):
    """Draws `widgets/price_table.js`."""

    _esm = widget_assets.module(widget_assets.PRICE_TABLE)
    _css = widget_assets.style()


class RunPanelWidget(PanelWidget):
    """Draws `widgets/run_panel.js`."""

    _esm = widget_assets.module(widget_assets.RUN_PANEL)
    _css = widget_assets.style()


class ClustersTableWidget(PanelWidget):
    """Draws `widgets/clusters_table.js`."""

    _esm = widget_assets.module(widget_assets.CLUSTERS_TABLE)
    _css = widget_assets.style()
