"""What a machine says of its load is read, and not believed."""

from __future__ import annotations

from typing import Any

import pytest

from nbprov.model.clusters import GpuLoad
from nbprov.remote.agent.framing import AgentError, parsed
from nbprov.remote.agent.messages import (
    MOST_GPUS,
    MOST_SAMPLES,
    TaskInfo,
    guard_state,
    machine_load,
    peer_states,
)


def answer(**changes: Any) -> dict[str, Any]:
    sample = {"age": 5.0, "cores": 1.5, "memory": 1000, "gpus": [[87.0, 2.0, 40.0], [None] * 3]}
    whole = {"samples": [sample], "cpus": 8, "memory": 9000, "disk_used": 10, "disk_total": 100}
    return {**whole, "idle_left": None, "is_active": False, **changes}


def test_ages_become_times_and_mebibytes_bytes() -> None:
    (sample,) = machine_load(answer(), 1000.0).samples
    assert sample.at == 995.0
    assert sample.gpus == (GpuLoad(87.0, 2 * 2**20, 40 * 2**20), GpuLoad(None, None, None))


def test_the_time_left_of_an_idle_guard_becomes_an_instant() -> None:
    load = machine_load(answer(idle_left=60.0, is_active=True), 1000.0)
    assert (load.idle_ends, load.is_active) == (1060.0, True)
    assert machine_load(answer(), 1000.0).idle_ends is None


def test_no_more_is_read_than_an_agent_keeps() -> None:
    many = answer()["samples"][0] | {"gpus": [[1.0, 1.0, 1.0]] * 5000}
    load = machine_load(answer(samples=[many] * 5000), 0.0)
    assert len(load.samples) == MOST_SAMPLES
    assert len(load.samples[0].gpus) == MOST_GPUS


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": [{"age": "5"}]},
        {"samples": "none"},
        {"memory": -1},
        {"memory": 2.0**60},
        {"cpus": float("nan")},
        {"disk_used": float("inf")},
        {"idle_left": "60"},
        {"samples": [answer()["samples"][0] | {"gpus": [[1.0]]}]},
        {"samples": [answer()["samples"][0] | {"gpus": [["<b>", 1.0, 1.0]]}]},
        {"samples": [answer()["samples"][0] | {"gpus": [[1e308, 1.0, 1.0]]}]},
        {"samples": [answer()["samples"][0] | {"gpus": [[-5.0, 1.0, 1.0]]}]},
        {"samples": [answer()["samples"][0] | {"cores": 1e308}]},
        {"samples": [answer()["samples"][0] | {"cores": -1.0}]},
        {"samples": [answer()["samples"][0] | {"age": -1e308}]},
        {"cpus": 1e308},
        {"cpus": -1},
        {"idle_left": 1e308},
    ],
)
def test_what_no_agent_sends_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AgentError):
        parsed(lambda data: machine_load(data, 0.0), answer(**changes))


@pytest.mark.parametrize("seconds", [1e308, -1e308, 10**300])
def test_no_duration_outlasts_the_calendar(seconds: float) -> None:
    guard = {"guard": "idle", "left": seconds, "mode": "down", "reason": "idle"}
    for read in (lambda: guard_state(guard), lambda: peer_states([{"node": 1, "heard": seconds}])):
        with pytest.raises(TypeError):
            read()


def test_no_count_is_longer_than_a_line() -> None:
    task = {"id": "1", "kind": "job", "name": "a", "state": "running", "devices": [1e308]}
    with pytest.raises(TypeError):
        TaskInfo.of(task)
    assert TaskInfo.of(task | {"devices": [0, 1]}).devices == (0, 1)
