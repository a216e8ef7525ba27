"""The form of an empty `%%provision` cell: a few questions that write the cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbprov.model.money import format_usd
from nbprov.notebook.rendering.tables import html_heading, html_page, html_preformatted

from .panel import Panel

if TYPE_CHECKING:
    from nbprov.catalog.accelerators_on_sale import AcceleratorOnSale

PLACES = {
    "eu": "Europe",
    "na": "North America",
    "as": "Asia",
    "oc": "Oceania",
    "sa": "South America",
    "me": "Middle East",
    "af": "Africa",
}
TEMPLATE = """%%provision dev
resources:
  accelerators: {gpu}:1
  region: eu
  max_hourly_cost: {most}
  autostop: 30
"""
_HEADING = "What do you need? Write it below %%provision, for example:"


class ProvisionForm(Panel[Sequence["AcceleratorOnSale"]]):
    """A form that writes a `%%provision` cell; where there are no widgets, an example.

    Parameters
    ----------
    view
        The accelerators to choose from. The example has the one that the most clouds sell.

    Examples
    --------
    >>> print(ProvisionForm([]))
    What do you need? Write it below %%provision, for example:
    %%provision dev
    resources:
      cpus: 2+
    """

    def state(self) -> dict[str, Any]:
        return {
            "gpus": [
                {
                    "name": one.name,
                    "counts": list(one.counts),
                    "memory": one.memory_gib and round(one.memory_gib),
                    "each": one.each,
                    "clouds": len(one.clouds),
                    "offers": one.offers,
                }
                for one in sorted(self._view, key=lambda one: (-len(one.clouds), one.each))
            ],
            "places": [{"code": code, "words": words} for code, words in PLACES.items()],
        }

    def html(self) -> str:
        return html_page(html_heading(_HEADING), html_preformatted(self._example()))

    def text(self) -> str:
        return f"{_HEADING}\n{self._example()}"

    def _example(self) -> str:
        if not self._view:
            return "%%provision dev\nresources:\n  cpus: 2+"
        most_sold = min(self._view, key=lambda one: (-len(one.clouds), one.each))
        most = format_usd(2 * most_sold.each).removeprefix("$")
        return TEMPLATE.format(gpu=most_sold.name, most=most).rstrip("\n")

    def _widget_class(self) -> Callable[..., Any]:
        from .widget import ProvisionFormWidget

        return ProvisionFormWidget

    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        """No message is expected: the form works in the browser alone."""
