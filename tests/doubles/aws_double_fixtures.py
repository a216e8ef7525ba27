"""Fixtures for tests of the AWS adapter: one double for each module, one owner for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aws_double import AwsDouble
from aws_double_account import KEPT, Account
from aws_models_once import read_models_once

from nbprov.clouds.aws import check, stock
from nbprov.clouds.aws.account import clients

PLENTY = 60.0


@pytest.fixture(scope="module")
def aws_double() -> Iterator[AwsDouble]:
    """Yield the double for one module; it checks at its end that nothing broke AWS's models."""
    read_models_once()
    with AwsDouble() as made:
        yield made


@pytest.fixture
def aws(aws_double: AwsDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Return an account at the double."""
    for name, value in aws_double.env.items():
        monkeypatch.setenv(name, value)
    aws_double.tell("settings", **KEPT)
    account = Account(aws_double)
    account.mark()
    yield account
    aws_double.tell("settings", **KEPT)
    aws_double.tell("clear")
    monkeypatch.undo()
    for name, value in aws_double.env.items():
        monkeypatch.setenv(name, value)
    account.cloud.terminate([i.id for i in account.cloud.list(account.owner)])


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give checks and stock probes all the time they need, however busy the machine is.

    What they leave out under time pressure has tests of its own.
    """
    monkeypatch.setattr(check, "CHECK_SECONDS", PLENTY)
    monkeypatch.setattr(check, "ZONES_SECONDS", PLENTY - 10)
    monkeypatch.setattr(check, "ELSEWHERE_SECONDS", PLENTY - 10)
    monkeypatch.setattr(stock, "STOCK_SECONDS", PLENTY)
    monkeypatch.setattr(
        clients, "_BOUNDS", {**clients._BOUNDS, clients.QUICK: (PLENTY / 3, PLENTY / 3, 1)}
    )
