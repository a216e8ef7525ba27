"""Doubles are forked from one parent, and know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest
from addresses import claim
from double_process import END_SECONDS, FORKS, PARENT_OF_DOUBLES
from lambda_double import LambdaDouble
from web_double import WebDouble


@pytest.fixture
def double() -> Iterator[LambdaDouble]:
    with LambdaDouble() as made:
        yield made


def process_of(double: LambdaDouble) -> psutil.Process:
    assert double._process is not None
    return double._process


def test_what_one_is_told_no_other_knows(double: LambdaDouble) -> None:
    double.add_fault("list", "capacity")
    double.tell("stock", instance_type="gpu_1x_a10", region="us-west-1", left=0)
    with LambdaDouble() as other:
        assert other.url != double.url
        assert process_of(other).pid != process_of(double).pid
        assert other.told("calls") == double.told("calls") == []
    assert double.told("problems") == [], "it runs on when another one ends"


def test_one_that_is_killed_harms_no_other(double: LambdaDouble) -> None:
    process_of(double).kill()
    process_of(double).wait(END_SECONDS)
    with LambdaDouble() as other:
        assert other.told("problems") == []
    double.close(check=False)


def test_one_that_hangs_harms_no_other(double: LambdaDouble) -> None:
    process_of(double).suspend()
    with LambdaDouble() as other:
        assert other.told("problems") == []
    process_of(double).resume()


@pytest.mark.skipif(not FORKS, reason="without forks there is no parent")
def test_all_end_with_their_parent_and_the_next_has_another(double: LambdaDouble) -> None:
    parent = PARENT_OF_DOUBLES._process
    assert parent is not None
    parent.kill()
    process_of(double).wait(END_SECONDS)
    double.close(check=False)
    with LambdaDouble() as other:
        assert other.told("problems") == []
    assert PARENT_OF_DOUBLES._process is not parent


class Twice(LambdaDouble):
    """Is given an address first that another double had."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[psutil.Process] = []

    def _begun(self) -> tuple[psutil.Process, str]:
        process, url = super()._begun()
        if not self.begun:
            assert claim(urlsplit(url).port or 0)
        self.begun.append(process)
        return process, url


def test_no_address_is_taken_twice() -> None:
    with Twice() as double:
        first, second = double.begun
        assert not first.is_running()
        assert process_of(double) is second
        assert double.told("problems") == []
    with WebDouble() as web:
        assert not claim(urlsplit(web.url()).port or 0)
