"""The static forms on a page: renewed over reloads, and taken up from kernels that have ended.

`update_display_data` reaches a page only until it is reloaded, and never the outputs of an earlier
kernel. So the code of a panel in the browser finds the forms in the notebook's model by their
anchors, tells the kernel which there are, and writes what the kernel answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

PAGE_TARGET = "nbprov.page"
"""The comm target that the panels of an ended kernel wait on in an open page."""

MOST_FORMS = 500
"""The most forms that are taken from one message of a page."""

log = logging.getLogger("nbprov.notebook")


class ShownOutputs(Protocol):
    """A display that goes on in the place of an earlier one."""

    def outputs(self) -> dict[str, Any]:
        """Return its static form and its widget."""


Follow = Callable[[str, str], ShownOutputs | None]

_follow: Follow = lambda subject, anchor: None  # noqa: E731
_known: set[str] = set()
_lock = threading.Lock()
_links: list[Any] = []


def remember(anchor: str) -> None:
    """Note that a display of this kernel has this anchor."""
    with _lock:
        _known.add(anchor)


def outputs_for(forms: Any) -> list[dict[str, Any]]:
    """Return new outputs for the forms of earlier kernels whose subjects this kernel knows.

    Parameters
    ----------
    forms
        What the page has, as `widgets/types.d.ts` describes it. It is checked here.
    """
    if not isinstance(forms, Sequence):
        return []
    found = []
    for form in forms[:MOST_FORMS]:
        if not isinstance(form, dict):
            continue
        anchor, subject = str(form.get("anchor", "")), str(form.get("subject", ""))
        with _lock:
            is_new = bool(anchor and subject) and anchor not in _known
            _known.add(anchor)
        taken = _take_up(anchor, subject) if is_new else None
        if taken is not None:
            found.append(taken)
    return found


def _take_up(anchor: str, subject: str) -> dict[str, Any] | None:
    try:
        display = _follow(subject, anchor)
    except Exception:  # a page may have any form, and the others are renewed all the same
        log.exception("the panel of %s", subject)
        return None
    return None if display is None else {"anchor": anchor, **display.outputs()}


def follow_with(follow: Follow) -> None:
    """Set what goes on with a panel of an earlier kernel, given its subject and its anchor."""
    global _follow
    _follow = follow


def link_open_pages() -> None:
    """Ask the open pages which forms they have, because an earlier kernel left some.

    Panels whose kernel has ended wait for this; a page without any ignores it.
    """
    from comm import create_comm

    link = create_comm(target_name=PAGE_TARGET)

    def answer(message: dict[str, Any]) -> None:
        data = message.get("content", {}).get("data", {})
        outputs = outputs_for(data.get("forms"))
        if outputs:
            link.send({"type": "outputs", "outputs": outputs})

    link.on_msg(answer)
    _links.append(link)
