"""Every mutant still changes its adapter; `make mutants` runs them all, and a few run here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cloud_contract import CHECKS
from subjects import CLOUDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from mutants import MUTANTS, Mutant

HANDFUL = (
    ("fluffycloud", "410 is no machine"),
    ("fluffycloud", "the script is in the operation"),
    ("lambda", "an unhealthy machine is stopped"),
    ("runpod", "one page of pods"),
)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.cloud}: {one.what}")
def test_mutant_changes_its_file(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file} no longer has exactly once:\n{mutant.old}"
    changed = text.replace(mutant.old, mutant.new)
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    assert changed != text


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.cloud}: {one.what}")
def test_the_check_that_catches_it_applies_to_its_cloud(mutant: Mutant) -> None:
    (made,) = [one for one in CLOUDS if one.name == mutant.cloud]
    assert mutant.caught_by in {check.__name__ for check in CHECKS}
    assert mutant.caught_by not in made.does_not_apply, "it would survive unseen"


def test_there_are_many_over_five_adapters() -> None:
    assert len(MUTANTS) >= 40
    assert len({one.cloud for one in MUTANTS}) == 5


@pytest.mark.machine
def test_a_failure_says_what_was_expected_and_seen() -> None:
    """In the check's own words, and with the values, which pytest tells of modules it rewrites."""
    from adapter_mutants import checked, tree_with

    (mutant,) = [one for one in MUTANTS if one.what == "ssh is open to everybody"]
    with tree_with(mutant) as tree:
        passed, said = checked(tree, mutant.cloud, mutant.caught_by)
    assert not passed
    assert "ports 22-22 are open to 0.0.0.0/0, not to one address" in said
    assert f"assert {2**32} == 1" in said


@pytest.mark.machine
@pytest.mark.parametrize("which", HANDFUL, ids=lambda w: f"{w[0]}: {w[1]}")
def test_contract_sees_the_mutant(which: tuple[str, str]) -> None:
    from adapter_mutants import checked, tree_with

    (mutant,) = [one for one in MUTANTS if (one.cloud, one.what) == which]
    with tree_with(mutant) as tree:
        passed, said = checked(tree, mutant.cloud, mutant.caught_by)
    assert not passed, f"{mutant.caught_by} did not see it: {said}"
