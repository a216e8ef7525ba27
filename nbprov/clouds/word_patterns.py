"""Patterns of words for the tables of refusals: every word in them begins where a word begins.

Without that `no.{0,60}quota` would read "not set by default … quota project" as a quota, `funds`
would find "refunds", and `reach` "unreachable".
"""

from __future__ import annotations

import re

START = r"(?:(?<![^\W_])|(?=\W|n['’]t))"
"""Where a word may begin: behind what is no letter or digit, at a sign, or at the "n't" of one.

An underscore separates words, as in `POOL_EXHAUSTED`.
"""
SENTENCE = r"(?:[^.]|\.(?=\S))"
"""A character within one sentence: names of machines, prices and versions have dots too."""
_GAP = re.compile(rf"(?:{re.escape(SENTENCE)}|(?<!\\)\.|\[\^[^\]]*\])(?:\{{\d*,\d+\}}|[*+])")


def word_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, in any case, whose alternatives and gaps meet words at their beginning.

    A gap is any number of any characters (`.*`, `.{0,60}`, `[^.;]*`). Endings are left open, since
    many words are stems: short ones need a `\\b` behind them.

    Examples
    --------
    >>> found = word_pattern("limit.{0,20}reach|cannot")
    >>> [found.search(text) is not None for text in ("LIMIT was reached", "limits unreachable")]
    [True, False]
    """
    spaced = _GAP.sub(lambda gap: gap[0] + START, pattern)
    return re.compile(f"{START}(?:{spaced})", re.IGNORECASE | re.DOTALL)
