"""The line of a cell that holds a word, with a caret below the word."""

from __future__ import annotations

import re

MOST_SHOWN = 96
"""Characters shown of a line: if it wrapped in the output, the caret would be misplaced."""


def excerpt(source: str, word: str, line: int = 0) -> tuple[str, ...]:
    """Return two lines: where a spec holds a word, and a caret; none where it does not.

    Parameters
    ----------
    source
        The spec's text, without the values of secrets.
    line
        The line from which on it stands, from 1; an earlier one is taken only if there is none.

    Examples
    --------
    >>> print(*excerpt("resources:\\n  accelerators: H1000:8", "H1000"), sep="\\n")
      |   accelerators: H1000:8
      |                 ^
    """
    if not word:
        return ()
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
    found = [
        (number, match.start())
        for number, text in enumerate(source.splitlines(), 1)
        for match in whole.finditer(text)
        if text[match.end() : match.end() + 2] not in (":", ": ")  # that would be a key
    ]
    if not found:
        return ()
    number, column = next((place for place in found if place[0] >= line), found[0])
    text = source.splitlines()[number - 1].replace("\t", " ")
    if column >= MOST_SHOWN:
        return ()
    return f"  | {text[:MOST_SHOWN].rstrip()}", f"  | {' ' * column}^"
