"""The anywidget classes of the panels.

This module imports ipywidgets, so it is itself imported only when a panel is first shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import anywidget
import traitlets

from nbprov.notebook import widget_assets


class PanelWidget(anywidget.AnyWidget):
    """The base of the widgets. All else than the traits travels as messages.

    Attributes
    ----------
    files
        The files of `widgets/` that draw the panel.
    state
        The view as JSON; only the kernel writes it.
    anchor
        The mark by which the widget finds the static output above it.
    """

    files: ClassVar[tuple[str, ...]] = ()

    state = traitlets.Dict().tag(sync=True)
    anchor = traitlets.Unicode().tag(sync=True)
    _esm = traitlets.Unicode().tag(sync=True)

    @traitlets.default("_esm")
    def _packed_files(self) -> str:
        # When a panel is shown, because the first cell of a kernel shows one and not all of them.
        return widget_assets.packed(self.files)


class PageLinkWidget(anywidget.AnyWidget):
    """Runs `widgets/page_link.js` in each page; nothing shows it.

    Parameters
    ----------
    receive
        Called with the widget, a message of a page and its buffers.
    """

    _esm = widget_assets.module(widget_assets.PAGE_LINK)

    def __init__(self, receive: Callable[[Any, Any, Any], None]) -> None:
        # First, because a page sends its message as soon as it hears that this one listens.
        self.on_msg(receive)
        super().__init__()


class PriceTableWidget(PanelWidget):
    """Draws `widgets/price_table.js`."""

    files = widget_assets.PRICE_TABLE


class ProvisionFormWidget(PanelWidget):
    """Draws `widgets/provision_form.js`."""

    files = widget_assets.PROVISION_FORM


class RunPanelWidget(PanelWidget):
    """Draws `widgets/run_panel.js`."""

    files = widget_assets.RUN_PANEL


class ClustersTableWidget(PanelWidget):
    """Draws `widgets/clusters_table.js`."""

    files = widget_assets.CLUSTERS_TABLE
