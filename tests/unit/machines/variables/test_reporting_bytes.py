"""Ctrl-C while a variable is read by code in C, and steps of a bounded size."""

from __future__ import annotations

import pickle
import signal
from typing import Any

import pytest

from nbprov.machines.variables import decode_limits
from nbprov.machines.variables.decode_limits import are_all, are_none
from nbprov.machines.variables.reporting_bytes import trusted_value


@pytest.mark.parametrize("value", [list(range(200_000)), b"x" * 1_000_000, ["y" * 200_000] * 3])
def test_what_is_trusted_is_read_piece_by_piece(value: Any) -> None:
    told: list[int] = []
    data = pickle.dumps(value)
    assert trusted_value(data, told.append) == value
    assert told == sorted(told)


def test_an_interrupt_is_heard_in_the_middle_of_what_is_trusted() -> None:
    data, told = pickle.dumps(list(range(1_000_000))), list[int]()

    def interrupted(size: int) -> None:
        told.append(size)
        if size > 200_000:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trusted_value(data, interrupted)
    assert 200_000 < told[-1] < 400_000 < len(data)


def test_steps_of_many_parts_find_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_limits, "STEP", 10)
    numbers, mixed = [1] * 25, [*[1] * 24, "a"]
    assert are_all(frozenset({int}), numbers)
    assert not are_all(frozenset({int}), mixed)
    assert are_none(frozenset({str}), numbers)
    assert not are_none(frozenset({str}), mixed)
