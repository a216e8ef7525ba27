"""The harness itself: it sees a leak, sees a lost line, and a few rounds under cuts lose nothing
and leave nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soak
from cutting import Cutter
from growth import LEAST_SAMPLES, WATCHED, judged, table
from homes import machines, new_home
from kernels import Outcome, new_kernel
from readings import sample
from rounds import Tally, one_round, prepare


@pytest.fixture
def home() -> Iterator[Path]:
    with new_home() as made:
        yield made


def steady(count: int) -> list[dict[str, float]]:
    return [{watched.name: 40.0 for watched in WATCHED} for _ in range(count)]


@pytest.mark.parametrize("name", [watched.name for watched in WATCHED])
def test_what_grows_by_a_little_each_round_is_a_leak(name: str) -> None:
    samples = steady(120)
    for number, one in enumerate(samples):
        one[name] += number * 0.4
    leaks = [growth.watched.name for growth in judged(samples) if growth.is_leak]
    assert leaks == [name]
    assert table(judged(samples)).count("**leak**") == 1


def test_what_grows_in_the_warm_up_alone_is_none() -> None:
    samples = steady(80)
    for number, one in enumerate(samples):
        for watched in WATCHED:
            one[watched.name] += min(number, 19) * 5.0
    assert not any(growth.is_leak for growth in judged(samples))


def test_too_short_a_soak_is_not_judged() -> None:
    with pytest.raises(ValueError, match="soak for longer"):
        judged(steady(LEAST_SAMPLES))


def said(text: str) -> Outcome:
    message: dict[str, Any] = {"msg_type": "stream", "content": {"name": "stdout", "text": text}}
    return Outcome([message])


@pytest.mark.parametrize("text", ["a 0\na 2\n", "a 0\na 1\na 1\na 2\n", "a 1\na 0\na 2\n", ""])
def test_a_lost_a_doubled_and_a_late_line_are_faults(text: str) -> None:
    tally = Tally()
    tally.check("cells", said("a 0\na 1\na 2\n"), "a 0\na 1\na 2\n")
    assert not tally.faults
    tally.check("cells", said(text), "a 0\na 1\na 2\n")
    assert len(tally.faults) == 1


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("20m", 1200.0), ("0.5h", 1800.0)])
def test_durations(text: str, seconds: float) -> None:
    assert soak.seconds_of(text) == seconds


def test_two_rounds_under_cuts_lose_nothing_and_leave_nothing(home: Path) -> None:
    with new_kernel(home) as kernel:
        kernel.run(soak.CLUSTER)
        prepare(kernel)
        pid = kernel.value("__import__('os').getpid()")
        cutter, tally = Cutter(pid, (0.3, 0.6), seed=1), Tally()
        cutter.start()
        try:
            one_round(kernel, tally, lines=200)
            one_round(kernel, tally, lines=200, new_cluster=True)
        finally:
            cutter.end()
        assert tally.faults == []
        assert cutter.cuts > 0
        found = sample(pid, home, int(kernel.run(soak.TASKS).text))
        assert set(found) == {watched.name for watched in WATCHED}
        assert all(found[name] > 0 for name in found if not name.startswith("children"))
        kernel.run("%nbprov down --all")
        assert machines(home) == 0


def test_a_cut_is_seen_by_the_kernel(home: Path) -> None:
    with new_kernel(home) as kernel:
        kernel.run(soak.CLUSTER)
        kernel.run("%%on dev\nbefore = 1")
        cutter = Cutter(kernel.value("__import__('os').getpid()"), (1.0, 1.0), seed=1)
        assert cutter.cut() == 1
        assert kernel.run("%%on dev\nprint(before)").text == "1\n"
        kernel.run("%nbprov down --all")
