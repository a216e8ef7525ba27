"""Patterns of ignore files and pulls take about as long as the names that they read."""

from __future__ import annotations

import time

import pytest

from nbprov.on_machine.sync_files import Rules
from nbprov.remote.pull.patterns import only
from nbprov.remote.sync.gitignore import IgnoreRules

AT_ONCE = 1.0
"""Seconds; what tries all combinations takes hours with these."""

CASES = (
    ("*a" * 30 + "*b", "a" * 250),
    ("*?" * 60 + "b", "a" * 250),
    ("*[ab]*" * 30 + "c", "a" * 250),
    ("**/" * 12 + "x/y", "/".join("a" * 2000)),
    ("**/a/" * 12 + "b", "/".join("a" * 2000)),
    ("**/*a*a*a*b/" * 4 + "b", "/".join(["a" * 100] * 40)),
    ("*/" * 100 + "b", "/".join("a" * 2000)),
)
"""A pattern of a task file or a repository, and a name that a machine gives to a file."""


@pytest.mark.parametrize(("pattern", "name"), CASES)
def test_a_pattern_of_many_stars_is_read_at_once(pattern: str, name: str) -> None:
    ignored, pulled = IgnoreRules.parse(pattern), Rules(only(pattern))
    began = time.monotonic()
    assert not ignored.ignores(name, is_folder=False)
    assert pulled.ignores(name, False)
    assert time.monotonic() - began < AT_ONCE


@pytest.mark.parametrize(
    ("pattern", "name", "is_matched"),
    [
        ("*a*ab", "xaab", True),
        ("*a*ab", "xab", False),
        ("*ab*b?", "abxac", False),
        ("*ab*b?", "abxbabbc", True),
        ("x*[0-9]*.p?", "x-1-2.pt", True),
        ("**/a/**/b*c", "a/x/a/y/z/b-c", True),
        ("**/a/**/b*c", "x/y/z/b-c", False),
        ("a/**/**/b", "a/b", True),
        ("a/**/**/b", "a/x/y/b", True),
        ("a*/**", "ab/x/y", True),
    ],
)
def test_stars_match_what_they_match_in_a_shell(pattern: str, name: str, is_matched: bool) -> None:
    assert IgnoreRules.parse(f"/{pattern}").ignores(name, is_folder=False) == is_matched
    assert Rules(only(pattern)).ignores(name, False) != is_matched
