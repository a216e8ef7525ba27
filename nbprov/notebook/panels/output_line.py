"""One line of a cell's output that can be replaced later, and plain lines printed at once."""

from __future__ import annotations

import uuid

from nbprov.model.text.plain import printable
from nbprov.notebook.rendering.tables import html_page, html_text
from nbprov.notebook.terminal import say

from . import frontend

_PRINTED_STYLE = (
    "font-family:var(--jp-code-font-family,monospace);"
    "font-size:var(--jp-code-font-size,inherit);"
    "line-height:var(--jp-code-line-height,inherit);"
    "padding-left:var(--jp-code-padding,0);white-space:pre-wrap"
)
"""The look of printed text, in JupyterLab and elsewhere. Such lines often stand between prints."""


class OutputLine:
    """One line of output that any thread can replace, also in the saved notebook."""

    def __init__(self, text: str) -> None:
        self._id = f"nbprov-{uuid.uuid4().hex}"
        self._publish(text, update=False)

    def replace(self, text: str) -> None:
        """Replace the line where it stands; does nothing in a terminal, which cannot replace."""
        self._publish(text, update=True)

    def _publish(self, text: str, *, update: bool) -> None:
        text, shell = printable(text), frontend.shell()
        if shell is None or not hasattr(shell, "kernel"):
            if not update:
                say(text)
            return
        data = {
            "text/plain": text,
            "text/html": f'<div style="{_PRINTED_STYLE}">{html_page(html_text(text))}</div>',
        }
        shell.display_pub.publish(
            data=data, metadata={}, transient={"display_id": self._id}, update=update
        )


def print_now(text: str) -> None:
    """Print a line and flush it, because what follows may take a while."""
    say(text, flush=True)
