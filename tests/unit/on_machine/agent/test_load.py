"""The samples of a machine's load."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbprov.on_machine.agent import load
from nbprov.on_machine.agent.activity import Activity
from nbprov.on_machine.agent.load import SAMPLES, LoadHistory, memory_used


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(load, "boottime", lambda: now[0])
    return now


def test_a_minute_is_kept_however_often_is_looked(clock: list[float]) -> None:
    activity = Activity()
    history = LoadHistory(activity)
    for second in range(300):
        clock[0] = 1000.0 + second
        activity.cores = float(second)
        history.note()
    told = history.told()["samples"]
    assert len(told) == SAMPLES
    assert told[-1]["cores"] == 296.0
    assert told[-1]["age"] == 3.0
    assert 45 < told[0]["age"] - told[-1]["age"] < 60


def test_what_is_told_is_measured_before_and_has_the_size_of_the_machine() -> None:
    activity = Activity()
    activity.gpu_loads = [[87.0, 1024.0, 81920.0], [None, None, None]]
    history = LoadHistory(activity)
    assert history.told()["samples"] == []
    history.note()
    told = history.told()
    (sample,) = told["samples"]
    assert sample["gpus"] == activity.gpu_loads
    assert sample["memory"] > 0
    assert 0 < told["disk_used"] < told["disk_total"]


@pytest.mark.parametrize(
    ("usage", "cache", "used"), [("5000\n", "1200", 3800), ("5000\n", "9000", 0)]
)
def test_the_memory_of_a_container_is_its_own_without_its_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usage: str, cache: str, used: int
) -> None:
    (tmp_path / "current").write_text(usage)
    (tmp_path / "stat").write_text(f"anon 3\ninactive_file {cache}\nslab 1\n")
    places = ((str(tmp_path / "current"), str(tmp_path / "stat"), "inactive_file"),)
    monkeypatch.setattr(load, "CGROUPS", places)
    assert memory_used() == used


def test_the_memory_of_a_whole_machine_is_what_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "CGROUPS", (("/no/such/file", "", ""),))
    monkeypatch.setattr(load, "_of_file", lambda path, name: {"MemTotal:": 100}.get(name, 40))
    assert memory_used() == 60 * 1024
