"""What a transfer may take, by a clock of the test's own."""

from __future__ import annotations

import pytest

from nbprov.on_machine import transfer_limit
from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have gone by."""
    now = [0.0]
    monkeypatch.setattr(transfer_limit.time, "monotonic", lambda: now[0])
    return now


def _until_trouble(clock: list[float], watch: TransferWatch, size: int, seconds: float) -> str:
    """Move bytes at a steady pace until the watch says something."""
    while not (why := watch.trouble()):
        clock[0] += seconds
        watch.moved(size)
    return why


def test_one_byte_a_second_is_given_up(clock: list[float]) -> None:
    watch = TransferLimit().watch()
    with watch.moving():
        why = _until_trouble(clock, watch, 1, 1.0)
    assert why == "moved less than 1 kB a second for 60 seconds"
    assert clock[0] == 60.0


def test_what_comes_fast_enough_has_a_deadline_too(clock: list[float]) -> None:
    watch = TransferLimit().watch()
    with watch.moving():
        why = _until_trouble(clock, watch, 100_000, 60.0)
    assert why == "took longer than 24 hours"
    assert clock[0] == 24 * 3600.0 + 60.0


def test_a_busy_line_recovers(clock: list[float]) -> None:
    watch = TransferLimit().watch()
    with watch.moving():
        for size in [1] * 50 + [500_000] * 10 + [1] * 50:
            clock[0] += 1.0
            watch.moved(size)
            assert watch.trouble() == ""


def test_time_in_which_nothing_is_to_move_counts_for_the_deadline_alone(clock: list[float]) -> None:
    watch = TransferLimit().watch()
    clock[0] = 3600.0
    assert watch.trouble() == ""
    with watch.moving(600.0):
        clock[0] += 599.0
        assert watch.trouble() == ""
        watch.expect()
        clock[0] += 59.0
        assert watch.trouble() == ""
        clock[0] += 1.0
        assert watch.trouble() == "moved less than 1 kB a second for 60 seconds"
    assert watch.trouble() == ""
