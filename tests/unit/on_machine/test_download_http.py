"""Downloads on a machine that come too slowly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbprov.on_machine import download_http
from nbprov.on_machine.sync_protocol import SyncFailure


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have gone by."""
    now = [0.0]
    monkeypatch.setattr(download_http.time, "monotonic", lambda: now[0])
    return now


def pieces(clock: list[float], size: int, seconds: float) -> Iterator[bytes]:
    """Pieces of a size, one after the other."""
    while True:
        clock[0] += seconds
        yield b"x" * size


def test_one_byte_a_second_is_given_up(clock: list[float]) -> None:
    with pytest.raises(SyncFailure, match="less than 1 kB a second") as caught:
        list(download_http.steady(pieces(clock, 1, 1.0)))
    assert clock[0] < 130.0
    assert caught.value.code == "stalled"


def test_what_comes_fast_enough_has_a_deadline_too(clock: list[float]) -> None:
    with pytest.raises(SyncFailure, match="longer than 24 hours"):
        list(download_http.steady(pieces(clock, 100_000, 60.0)))
    assert clock[0] <= 24 * 3600.0 + 60.0


def test_a_busy_line_recovers(clock: list[float]) -> None:
    sizes = iter([1] * 50 + [500_000] * 10 + [1] * 50)
    assert len(list(download_http.steady(_timed(clock, sizes)))) == 110


def _timed(clock: list[float], sizes: Iterator[int]) -> Iterator[bytes]:
    for size in sizes:
        clock[0] += 1.0
        yield b"x" * size
