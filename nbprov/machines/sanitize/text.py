"""Clean text of a machine: colours stay; whatever else controls a terminal or page goes."""

from __future__ import annotations

import re
from typing import Any

STRING_LIMIT = 4096
"""Characters after which a control string (a title, link or clipboard) counts as never closed.

Text is shown again from there.
"""

LARGE = 1_000_000
MOST_SEQUENCES = 100_000
"""Limits of one piece: its characters, and the control characters in it.

Beyond both, all control characters are removed unread, colours too, since a flood of them would
take minutes to read one by one.
"""

HELD_LIMIT = 64
"""Characters of an escape sequence that may still be incomplete; honest ones are shorter."""

# Colours (SGR) and erase-in-line stay; so do CR and BS, which progress bars are made of.
_KEPT = re.compile(r"\x1b\[[0-9;:]{0,40}m|\x1b\[[0-2]?K")
_STRING_START = re.compile(r"\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]")
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|\x18|\x1a|\n")
_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-Z\\-~]")
_INCOMPLETE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z")
# Besides controls: direction overrides, line ends that few programs know, and halves of
# surrogate pairs, which no message can carry.
_SPECIAL = re.compile(
    r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class TextFilter:
    """Cleans a stream that comes in pieces, which may cut a sequence anywhere.

    Examples
    --------
    >>> stream = TextFilter()
    >>> stream.feed("red \\x1b[3"), stream.feed("1mhot\\x1b[0m \\x1b]0;t"), stream.feed("\\x07done")
    ('red ', '\\x1b[31mhot\\x1b[0m ', 'done')
    """

    def __init__(self) -> None:
        self._held = ""
        self._in_string = 0

    def feed(self, text: str) -> str:
        """Return the part of the stream so far that may be shown now."""
        text, self._held = self._held + text, ""
        if len(text) > LARGE:
            bare, count = _SPECIAL.subn("", text)
            text = bare if count > MOST_SEQUENCES else text
        shown: list[str] = []
        at = 0
        while at < len(text):
            if self._in_string:
                at = self._skip_string(text, at)
                continue
            special = _SPECIAL.search(text, at)
            if special is None:
                shown.append(text[at:])
                break
            shown.append(text[at : special.start()])
            at = self._take_special(text, special.start(), shown)
        return "".join(shown)

    def _skip_string(self, text: str, at: int) -> int:
        end = _STRING_END.search(text, at)
        if end is not None and end.start() - at + self._in_string <= STRING_LIMIT:
            self._in_string = 0
            return end.start() if end.group() == "\n" else end.end()
        if end is None and len(text) - at + self._in_string <= STRING_LIMIT:
            # The terminator may be cut in two as well.
            keep = 1 if text.endswith("\x1b") else 0
            self._in_string += len(text) - at - keep
            self._held = text[len(text) - keep :]
            return len(text)
        over = max(0, STRING_LIMIT - self._in_string + 1)
        self._in_string = 0
        return at + over

    def _take_special(self, text: str, at: int, shown: list[str]) -> int:
        kept = _KEPT.match(text, at)
        if kept is not None:
            shown.append(kept.group())
            return kept.end()
        begun = _STRING_START.match(text, at)
        if begun is not None:
            self._in_string = 1
            return begun.end()
        whole = _SEQUENCE.match(text, at)
        if whole is not None:
            return whole.end()
        open_end = _INCOMPLETE.match(text, at)
        if open_end is not None and len(text) - at <= HELD_LIMIT:
            self._held = text[at:]
            return len(text)
        return at + 1


def clean_text(value: Any) -> str:
    """Return a whole text cleaned; empty if the value is no text.

    Examples
    --------
    >>> clean_text("a\\x1b]8;;http://x\\x07link\\x1b]8;;\\x07 \\x1b[2J\\x1b[1mb")
    'alink \\x1b[1mb'
    """
    return TextFilter().feed(value) if isinstance(value, str) else ""


def is_clean(text: str) -> bool:
    """Return whether a text holds no controls but colours, erase-line, CR and BS."""
    return _SPECIAL.search(_KEPT.sub("", text)) is None
