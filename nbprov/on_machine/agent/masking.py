"""Masking: replaces secret values in a whole text, and in one that comes in pieces.

Both sides use it: the agent before it journals output, the notebook's side before it shows a log.
"""

from __future__ import annotations

import functools
import re
from typing import Callable, Iterable, Pattern, Tuple

LEAST_SECRET = 4
"""Shorter values are not masked: a secret `1` would mask half of every log."""
MASK = "***"
HELD_SECONDS = 1.0
"""How long what may be the beginning of a secret waits for the rest.

The pieces of one line lie closer together, and no prompt is read in less."""

Values = Tuple[str, ...]
"""Secret values in the order in which they are looked for, as `ordered` returns them."""


def ordered(values: Iterable[str]) -> Values:
    """Return the values that are masked, without surrounding blanks, the longest first.

    A token that was read from a file has a line end, and what prints it has none.

    Examples
    --------
    >>> ordered(["abcd", "abcdef\\n", "1"])
    ('abcdef', 'abcd')
    """
    found = {value for value in map(str.strip, values) if len(value) >= LEAST_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


class Masker:
    """Masks values in whole texts.

    Examples
    --------
    >>> Masker(["hf_abc"])("clone https://hf_abc@host")
    'clone https://***@host'
    """

    def __init__(self, values: Iterable[str]) -> None:
        self.values = ordered(values)

    def __call__(self, text: str) -> str:
        """Return the text with the values masked."""
        return mask(text, self.values)


class StreamMasker:
    """Masks values in a text that comes in pieces, wherever it is cut.

    What may be the beginning of a value is held back until the next pieces decide it.

    Parameters
    ----------
    values
        Returns the values in the order of `ordered`. It is asked with each piece, since values may
        be added meanwhile.

    Examples
    --------
    >>> stream = StreamMasker(lambda: ("hf_abcdef",))
    >>> [stream.add("token hf_a"), stream.add("bcdef ok h"), stream.end()]
    ['token ', '*** ok ', 'h']
    """

    def __init__(self, values: Callable[[], Values]) -> None:
        self._values = values
        self._shown = self._held = ""

    @property
    def is_brief(self) -> bool:
        """Whether what is held back is too short to be a secret, and so may be shown early."""
        return bool(self._held) and len(self._shown + self._held) < LEAST_SECRET

    def add(self, piece: str) -> str:
        """Take the next piece and return what may be shown now."""
        values = self._values()
        text, skip = self._shown + self._held + piece, len(self._shown)
        spans = spans_of(values, text)
        cut = min((beginning_of(value, text) for value in values), default=len(text))
        # A secret that ends within the beginning of another one is cut by neither.
        cut = next((start for start, end in spans if start < cut < end), cut)
        self._shown, self._held = text[cut:skip], text[max(cut, skip) :]
        return masked(text[:cut], [span for span in spans if span[1] <= cut], skip)

    def early(self) -> str:
        """Return what is held back, if that is brief; the rest of a secret is still masked."""
        if not self.is_brief:
            return ""
        shown, self._held = self._held, ""
        self._shown += shown
        return shown

    def end(self) -> str:
        """Return what is left at the end of the text."""
        text, skip = self._shown + self._held, len(self._shown)
        self._shown = self._held = ""
        return masked(text, spans_of(self._values(), text), skip)


def mask(text: str, values: Values) -> str:
    """Return a text with the values masked."""
    return masked(text, spans_of(values, text), 0)


@functools.lru_cache(maxsize=4)
def _pattern(values: Values) -> Pattern[str]:
    return re.compile("|".join(map(re.escape, values)))


def spans_of(values: Values, text: str) -> list[tuple[int, int]]:
    """Return where a text holds values: at each place the longest one that begins there."""
    there = tuple(value for value in values if value in text)
    return [match.span() for match in _pattern(there).finditer(text)] if there else []


def beginning_of(value: str, text: str) -> int:
    """Return where the text's end begins that may be the beginning of a value, else its length."""
    first, head = max(0, len(text) - len(value) + 1), value[:LEAST_SECRET]
    at = text.find(head, first)
    while at >= 0:
        if value.startswith(text[at:]):
            return at
        at = text.find(head, at + 1)
    ends = range(max(first, len(text) - LEAST_SECRET + 1), len(text))
    return next((at for at in ends if value.startswith(text[at:])), len(text))


def masked(text: str, spans: Iterable[tuple[int, int]], skip: int) -> str:
    """Return a text from `skip` on, with masks in place of the spans."""
    found, place = [], skip
    for start, end in spans:
        if end > place:
            found += [text[place : max(place, start)], MASK]
            place = end
    return "".join([*found, text[place:]])
