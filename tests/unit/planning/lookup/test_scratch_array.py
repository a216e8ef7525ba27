"""Borrowed arrays are empty, whoever else searches and however the last search ended."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nbprov.planning.lookup.scratch_array import NONE, borrowed

ROWS = np.array([1, 4, 7])


def test_marks_are_empty_when_lent_again() -> None:
    with borrowed(8) as marks:
        assert (marks[np.arange(8)] == NONE).all()
        marks[ROWS] = 3
        marks[ROWS[:1]] = 5
        assert marks[ROWS].tolist() == [5, 3, 3]
    with borrowed(8) as again:
        assert (again[np.arange(8)] == NONE).all()


def test_a_search_that_failed_leaves_no_mark() -> None:
    def fail() -> None:
        with borrowed(8) as marks:
            marks[ROWS] = 1
            raise KeyError("in the middle")

    with pytest.raises(KeyError):
        fail()
    with borrowed(8) as again:
        assert (again[ROWS] == NONE).all()


def test_two_at_once_have_marks_of_their_own() -> None:
    with borrowed(8) as one, borrowed(8) as other:
        one[ROWS] = 1
        other[ROWS] = 2
        assert one[ROWS].tolist() == [1, 1, 1]
        assert other[ROWS].tolist() == [2, 2, 2]


def test_larger_marks_serve_a_smaller_search_and_not_the_other_way() -> None:
    with borrowed(50) as large:
        large[np.array([49])] = 1
    with borrowed(8) as marks:
        assert len(marks) >= 8
    with borrowed(1000) as marks:
        assert len(marks) >= 1000
        assert (marks[np.arange(1000)] == NONE).all()


def test_threads_never_see_each_other_s_marks() -> None:
    together = threading.Barrier(6)
    wrong: list[int] = []

    def search(number: int) -> None:
        together.wait(30)
        for turn in range(200):
            with borrowed(100 + number) as marks:
                rows = np.arange(turn % 50, 100)
                if (marks[rows] != NONE).any():
                    wrong.append(number)
                marks[rows] = number
                if (marks[rows] != number).any():
                    wrong.append(number)

    threads = [threading.Thread(target=search, args=(n,), daemon=True) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
