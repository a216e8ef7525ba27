"""The matcher that IPython calls at each Tab; what it offers is imported with the first magic."""

from __future__ import annotations

from typing import Any

from IPython.core.completer import context_matcher


@context_matcher()  # type: ignore[untyped-decorator]
def match(context: Any) -> dict[str, Any]:
    """Return what fits at the cursor of a cell that is one of our magics; nothing elsewhere."""
    if "%" not in context.full_text.partition("\n")[0]:
        return {"completions": [], "suppress": False}
    from .magics import completions_at

    return completions_at(context)
