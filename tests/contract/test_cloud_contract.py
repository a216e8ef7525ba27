"""Every cloud satisfies the contract."""

from __future__ import annotations

import pytest
from cloud_contract import CHECKS, Check
from clouds_under_test import CloudUnderTest

pytestmark = pytest.mark.machine


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_cloud_keeps_the_contract(subject: CloudUnderTest, check: Check) -> None:
    check(subject)
