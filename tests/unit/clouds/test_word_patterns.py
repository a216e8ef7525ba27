"""No table of refusals finds a word inside another: "no" in "not", "funds" in "refunds"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from nbprov.clouds.aws import errors as aws
from nbprov.clouds.gcp import error_codes as gcp
from nbprov.clouds.lambda_cloud import errors as lambda_errors
from nbprov.clouds.refusal_rows import ROWS
from nbprov.clouds.runpod import errors as runpod
from nbprov.clouds.word_patterns import START, word_pattern

TABLES: dict[str, list[re.Pattern[str]]] = {
    "words of all": [row.pattern for row in ROWS],
    "aws": [pattern for pattern in aws._MESSAGES if pattern is not None],
    "gcp": [pattern for pattern, _, _ in gcp.SENTENCES],
    "lambda": [pattern for _, pattern, _, _ in lambda_errors._WORDS],
    "runpod": [pattern for pattern, _ in runpod.PROSE],
}
SHORTEST_STEM = 4
"""Letters of a word that may go on: `exceed` is meant to find "exceeded", `no` not to find "not".
"""
_START = str(_parser.parse(START).data[0])
_Place = tuple[bool, str]
"""Whether the word here may begin inside another, and its letters so far."""
BEHIND_A_SIGN: set[_Place] = {(False, "")}
IN_A_GAP: set[_Place] = {(True, "")}


def _is_letter(code: Any) -> bool:
    return isinstance(code, int) and chr(code).isalpha()


def _reads_letters(entries: Iterable[tuple[Any, Any]]) -> bool:
    words = (_constants.CATEGORY_WORD, _constants.CATEGORY_NOT_SPACE)
    return any(
        kind is _constants.NEGATE
        or (kind is _constants.CATEGORY and of in words)
        or (kind is _constants.RANGE and _is_letter(of[0]))
        for kind, of in entries
    )


class Words:
    """The words of one pattern that begin, or end, inside others."""

    def __init__(self, pattern: str) -> None:
        self.inside: set[str] = set()
        self._end(self._walk(_parser.parse(pattern), IN_A_GAP))

    def _end(self, places: set[_Place], *, in_gap: bool = False) -> None:
        for is_loose, word in places:
            if word and (is_loose or (in_gap and len(word) < SHORTEST_STEM)):
                self.inside.add(word)

    def _walk(self, tokens: Iterable[tuple[Any, Any]], places: set[_Place]) -> set[_Place]:
        for kind, value in tokens:
            places = self._step(kind, value, places)
        return places

    def _step(self, kind: Any, value: Any, places: set[_Place]) -> set[_Place]:
        if str((kind, value)) == _START or kind is _constants.AT:
            self._end(places)
            return BEHIND_A_SIGN
        if kind is _constants.SUBPATTERN:
            return self._walk(value[3], places)
        if kind is _constants.BRANCH:
            return {place for branch in value[1] for place in self._walk(branch, places)}
        if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            after = self._walk(value[2], places)
            return after if value[0] else places | after
        if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
            return places
        return self._step_by_character(kind, value, places)

    def _step_by_character(self, kind: Any, value: Any, places: set[_Place]) -> set[_Place]:
        letter = value if kind is _constants.LITERAL and _is_letter(value) else None
        if kind is _constants.IN:
            listed = [of for one, of in value if one is _constants.LITERAL and _is_letter(of)]
            letter = listed[0] if listed and not _reads_letters(value) else None
            if list(value) == [(_constants.CATEGORY, _constants.CATEGORY_WORD)]:
                return {(is_loose, word + "…" * SHORTEST_STEM) for is_loose, word in places}
        if letter is not None:
            return {(is_loose, word + chr(letter)) for is_loose, word in places}
        is_sign = kind is _constants.LITERAL
        in_gap = not is_sign and (kind is not _constants.IN or _reads_letters(value))
        self._end(places, in_gap=in_gap)
        return IN_A_GAP if in_gap else BEHIND_A_SIGN


def _all() -> Iterator[tuple[str, str]]:
    for name, patterns in TABLES.items():
        yield from ((name, pattern.pattern) for pattern in patterns)


@pytest.mark.parametrize("table", TABLES)
def test_every_word_of_a_table_is_a_whole_word_or_a_stem(table: str) -> None:
    assert {p: Words(p).inside for t, p in _all() if t == table and Words(p).inside} == {}


@pytest.mark.parametrize(
    ("pattern", "inside"),
    [
        (r"quota|fund", {"quota", "fund"}),
        (r"\bno.{0,60}\bquota", {"no"}),
        (r"\bno\b.{0,60}\bquota", set()),
        (r"\blimit.{0,20}reach", {"reach"}),
        (r"\b(?:in)?valid", set()),
    ],
)
def test_words_inside_others_are_found(pattern: str, inside: set[str]) -> None:
    assert Words(pattern).inside == inside


def test_a_word_pattern_has_its_boundaries_by_itself() -> None:
    assert Words(word_pattern(r"quota|limit.{0,20}(reach|hit)|[^.;]*fund").pattern).inside == set()
    found = word_pattern("reach|(not|n't) enough")
    assert [found.search(text) is not None for text in ("unreachable", "isn't enough")] == [0, 1]
