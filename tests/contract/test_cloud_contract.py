"""Every cloud satisfies the contract."""

from __future__ import annotations

import pytest
from cloud_contract import CHECKS, Check, run_check
from clouds_under_test import CloudUnderTest
from subjects import CLOUDS

pytestmark = pytest.mark.machine


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_cloud_keeps_the_contract(subject: CloudUnderTest, check: Check) -> None:
    run_check(subject, check)


@pytest.mark.parametrize("made", CLOUDS, ids=lambda made: made.name)
def test_what_does_not_apply_has_a_reason(made: type[CloudUnderTest]) -> None:
    assert {check.__name__ for check in CHECKS} >= made.does_not_apply.keys()
    assert all(reason.strip() for reason in made.does_not_apply.values())


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_every_check_applies_to_several_clouds(check: Check) -> None:
    applies = [made.name for made in CLOUDS if check.__name__ not in made.does_not_apply]
    assert len(applies) > 1, "a check that runs nowhere, or over one cloud, catches nothing"
