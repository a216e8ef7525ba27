"""The run panel: one launch from its plan to its cluster, live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nbprov.model.clusters import RunView
from nbprov.model.errors import UsageError
from nbprov.model.offers import PLAN_ROWS
from nbprov.notebook.rendering.price_data import TableData
from nbprov.notebook.rendering.run_facts import (
    KEPT_ATTEMPTS,
    LONGEST_MESSAGE,
    SAVED_ATTEMPTS,
    earlier_words,
    run_facts,
)
from nbprov.notebook.rendering.run_lines import run_lines
from nbprov.notebook.rendering.runs import run_html, run_text
from nbprov.notebook.rendering.tables import cut

from .panel import Callback, NamedCallback, Panel, call
from .plain_fields import plain_fields


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens more places.

    Attributes
    ----------
    text
        What a person can paste to do it by hand; empty where there is nothing to paste.
    press
        The words of the button that launches again with it; empty where only a person can do it.
    """

    words: str
    text: str
    press: str


class RunPanel(Panel[RunView]):
    """A launch: the plan and the Launch button, a row for each attempt, the cost and the result.

    Parameters
    ----------
    on_launch, on_cancel
        Called without arguments; a button without a callback is not drawn.
    on_again
        Called where a launch that is over is to be launched again.
    on_wait
        Called where a launch that found no stock is to be launched again, and to wait for some.
    on_widen
        Called with the words of an opening that a launch that failed is to be launched again with.
    on_longer
        Called where a launch that waits for stock is to wait longer.
    on_try
        Called where a launch that waits for stock is to try its places now.
    on_down
        Called with the cluster's name after a second press.
    on_stop
        Called with the cluster's name.
    ssh
        Returns the ssh command that logs in to the cluster of this name.
    on_console
        Called with the token of an attempt whose console a person opened, and the view that asks.
    on_prefer
        Called with the keys of the candidates that are to be tried first; none for the plan's own
        order.

    Attributes
    ----------
    openings
        What would open more places to a launch that failed, once that is known.
    """

    def __init__(
        self,
        view: RunView,
        *,
        on_launch: Callback | None = None,
        on_cancel: Callback | None = None,
        on_again: Callback | None = None,
        on_wait: Callback | None = None,
        on_widen: NamedCallback | None = None,
        on_longer: Callback | None = None,
        on_try: Callback | None = None,
        on_down: NamedCallback | None = None,
        on_stop: NamedCallback | None = None,
        ssh: Callable[[str], str] | None = None,
        on_console: Callable[[str, str], None] | None = None,
        on_prefer: Callable[[tuple[tuple[str, ...], ...]], object] | None = None,
    ) -> None:
        self._on_launch = on_launch
        self._on_cancel = on_cancel
        self._on_again = on_again
        self._on_wait = on_wait
        self._on_widen = on_widen
        self._on_longer = on_longer
        self._on_try = on_try
        self._on_down = on_down
        self._on_stop = on_stop
        self._ssh = ssh
        self._on_console = on_console
        self._on_prefer = on_prefer
        self.openings: tuple[Opening, ...] = ()
        super().__init__(view)

    def state(self) -> dict[str, Any]:
        listening = {
            "launch": self._on_launch,
            "cancel": self._on_cancel,
            "again": self._on_again,
            "wait": self._on_wait if _lacked_stock(self._view) else None,
            "widen": self._on_widen,
            "longer": self._on_longer,
            "try": self._on_try if self._view.waiting is not None else None,
            "down": self._on_down,
            "stop": self._on_stop,
            "ssh": self._ssh,
            "console": self._on_console,
            "prefer": self._on_prefer,
        }
        return {
            **plain_fields(run_facts(self._view)),
            "openings": [plain_fields(opening) for opening in self.openings],
            "version": self._version if self._view.plan.candidates else 0,
            "actions": [name for name, callback in listening.items() if callback is not None],
        }

    def html(self) -> str:
        return run_html(self._view)

    def text(self) -> str:
        return run_text(self._view)

    def saved_text(self) -> str:
        return run_text(self._view, SAVED_ATTEMPTS)

    def saved_state(self, state: dict[str, Any]) -> dict[str, Any]:
        shown = state["attempts"]
        earlier, latest = shown[:-KEPT_ATTEMPTS], shown[-KEPT_ATTEMPTS:]
        kept = [*(a for a in earlier if a["ended"] is None), *latest]
        if len(kept) == len(shown):
            return state
        kept = [{**a, "raw": cut(a["raw"], LONGEST_MESSAGE)} for a in kept]
        words = earlier_words(self._view.tries - len(kept), self._view.name)
        return {**state, "attempts": kept, "earlier": words, "is_cut": True}

    def lines(self, previous: RunView | None) -> list[str]:
        return run_lines(previous, self._view)

    def _widget_class(self) -> Callable[..., Any]:
        from .widget import RunPanelWidget

        return RunPanelWidget

    def _table(self, view: RunView) -> TableData | None:
        return TableData.from_plan(view.plan, limit=PLAN_ROWS)

    def _has_new_table(self, before: RunView, after: RunView) -> bool:
        # Snapshots of a run share one plan object. A plan that was loaded again is a different
        # object, so it is compared by its time and its length.
        old, new = before.plan, after.plan
        return old is not new and (old.made_at, len(old.candidates)) != (
            new.made_at,
            len(new.candidates),
        )

    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "launch":
            call(self._on_launch)
        elif kind == "cancel":
            call(self._on_cancel)
        elif kind == "again":
            call(self._on_again)
        elif kind == "wait":
            call(self._on_wait)
        elif kind == "widen":
            call(self._on_widen, str(content["words"]))
        elif kind == "longer":
            call(self._on_longer)
        elif kind == "try":
            call(self._on_try)
        elif kind == "down":
            call(self._on_down, str(content["name"]))
        elif kind == "stop":
            call(self._on_stop, str(content["name"]))
        elif kind == "ssh" and self._ssh is not None:
            text = self._ssh(str(content["name"]))
            words = "the ssh command is copied: paste it into a terminal"
            self._send({"type": "copy", "view": content["view"], "text": text, "words": words})
        elif kind == "console" and self._on_console is not None:
            self._on_console(str(content["key"]), str(content["view"]))
        elif kind == "prefer":
            call(self._on_prefer, self._keys_at(list(map(int, content["ranks"])), content))

    def _keys_at(self, ranks: list[int], content: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
        with self._lock:
            shown, is_shown = self._view.plan.candidates, content["version"] == self._version
            if ranks and not (is_shown and all(0 <= rank < len(shown) for rank in ranks)):
                # The ranks are those of a table that is not shown any more.
                raise UsageError("the plan has changed meanwhile: choose again")
            return tuple(shown[rank].key for rank in ranks)


def _lacked_stock(view: RunView) -> bool:
    from nbprov.provisioning.run.waiting.stock_wait import STOCK

    failures = [attempt.failure for attempt in view.attempts]
    return any(failure is not None and failure.cause in STOCK for failure in failures)
