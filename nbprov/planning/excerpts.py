"""Where a word stands in a cell: its place, and its line with a caret below the word."""

from __future__ import annotations

import re

MOST_SHOWN = 96
"""Characters shown of a line: if it wrapped in the output, the caret would be misplaced."""


def find_word(source: str, word: str, line: int = 0) -> tuple[int, int] | None:
    """Return the line and the column where a spec holds a word, both from 1; None if nowhere.

    Parameters
    ----------
    source
        The spec's text, without the values of secrets.
    line
        The line from which on it stands, from 1; an earlier one is taken only if there is none.

    Examples
    --------
    >>> find_word("resources:\\n  accelerators: H1000:8", "H1000")
    (2, 17)
    """
    if not word:
        return None
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
    found = [
        (number, match.start() + 1)
        for number, text in enumerate(source.splitlines(), 1)
        for match in whole.finditer(text)
        if text[match.end() : match.end() + 2] not in (":", ": ")  # that would be a key
    ]
    return next((place for place in found if place[0] >= line), found[0] if found else None)


def excerpt(source: str, word: str, line: int = 0) -> tuple[str, ...]:
    """Return two lines: where a spec holds a word, and a caret; none where it does not.

    The parameters are those of `find_word`.

    Examples
    --------
    >>> print(*excerpt("resources:\\n  accelerators: H1000:8", "H1000"), sep="\\n")
      |   accelerators: H1000:8
      |                 ^
    """
    place = find_word(source, word, line)
    if place is None or place[1] > MOST_SHOWN:
        return ()
    text = source.splitlines()[place[0] - 1].replace("\t", " ")
    return f"  | {text[:MOST_SHOWN].rstrip()}", f"  | {' ' * (place[1] - 1)}^"
