"""What a machine printed, made safe to show: colours stay, whatever else would move a cursor or fool a reader goes."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b\[(?P<colour>[0-9;:]*m)"  # a colour
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # any other control sequence
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboards: a string and its end
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with its colours, line ends, tabs and carriage returns, and no other control characters or sequences.

    Examples
    --------
    >>> clean("\\x1b[31mred\\x1b[0m\\x1b[2J \\x1b]0;title\\x07done\\x08\\r\\n")
    '\\x1b[31mred\\x1b[0m done\\r\\n'
    """
    if not _CONTROL.search(text) and "\x1b" not in text:
        return text
    text = _SEQUENCE.sub(lambda found: f"\x1b[{found['colour']}" if found["colour"] is not None else "", text)
    # What is left of a sequence within another would be one after this: only whole colours keep their escape.
    text = _CONTROL.sub("", text)
    return _LONE.sub("", text)


_LONE = re.compile(r"\x1b(?!\[[0-9;:]*m)")
