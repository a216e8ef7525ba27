"""What stands beside a completion: the meaning of a key or flag, the price of a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testing_shell import TestingShell

from nbprov import api
from nbprov.notebook.completion.magics import _MOST_BESIDE
from nbprov.notebook.extension import load, unload


@pytest.fixture
def offered(nbprov_home: Path) -> Iterator[Callable[[str], dict[str, str]]]:
    shell = TestingShell()
    load(shell)

    def ask(cell: str) -> dict[str, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {c.text: c.type for c in shell.Completer.completions(cell, len(cell))}

    yield ask
    unload(shell)
    api.close()


def test_a_key_says_what_it_means(offered: Callable[[str], dict[str, str]]) -> None:
    told = offered("%%provision\nresources:\n  use")
    assert told == {"use_spot:": "spot machines"}


@pytest.mark.parametrize(
    "cell", ["%%provision\nresources:\n  accelerators: A100-", "%prices A100-"]
)
def test_a_gpu_says_what_it_costs_and_who_has_it(
    offered: Callable[[str], dict[str, str]], cell: str
) -> None:
    told = offered(cell)
    sold = {one.name: one for one in api.session().prices("").accelerators()}
    assert told
    for name, words in told.items():
        assert words.startswith("from $"), name
        assert f"{sold[name].offers:,} offers" in words
        assert f"in {len(sold[name].clouds)} cloud" in words


def test_a_flag_says_what_it_does(offered: Callable[[str], dict[str, str]]) -> None:
    told = offered("%%provision dev --")
    assert "without" in told["--dry-run"] or "plan" in told["--dry-run"]
    assert all(words and len(words) <= _MOST_BESIDE for words in told.values())
