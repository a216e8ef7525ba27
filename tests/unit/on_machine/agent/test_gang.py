"""What agents of one cluster tell each other: whom they believe, and what counts for nothing."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.gang.gang import GangHeartbeat
from nbprov.on_machine.agent.gang.jobs import GangJobs
from nbprov.on_machine.agent.gang.messages import check_gang
from nbprov.on_machine.agent.guards.config import check_guards
from nbprov.on_machine.agent.guards.guard_clocks import GANG_SECONDS, GuardClocks
from nbprov.on_machine.agent.system import boottime

SECRET = "ab" * 32


class Net:
    """Carries words between gangs by their addresses, and keeps them; what it holds back can be let
    through later.
    """

    def __init__(self) -> None:
        self.members: dict[Any, GangHeartbeat] = {}
        self.carried: list[tuple[bytes, Any]] = []
        self.is_cut = False

    def sendto(self, data: bytes, address: Any) -> None:
        self.carried.append((data, address))
        if not self.is_cut and address in self.members:
            self.members[address].datagram_received(data, None)

    def close(self) -> None:
        """As a transport has it."""


def no_jobs() -> GangJobs:
    return GangJobs(lambda: 0.0, lambda: None)


def gang(
    net: Net, rank: int, size: int = 2, secret: str = SECRET, own: float | None = None
) -> GangHeartbeat:
    folder = Path(tempfile.mkdtemp(prefix="nbp-"))
    made = GangHeartbeat(folder, boottime() - 1000.0 if own is None else own, no_jobs())
    made.set(
        {"rank": rank, "nodes": [[f"10.0.0.{n + 1}", 29500] for n in range(size)], "secret": secret}
    )
    made.transport = net  # type: ignore[assignment]
    net.members[made.here] = made
    return made


def test_a_machine_knows_when_another_one_was_active() -> None:
    net = Net()
    first, second = gang(net, 0), gang(net, 1)
    second.own = boottime() - 7.0
    first.send_all()
    assert first.last_active() == pytest.approx(second.own, abs=0.5)
    assert second.last_active() == pytest.approx(first.own, abs=0.5)


def test_two_idle_machines_do_not_keep_each_other_awake() -> None:
    net = Net()
    pair = [gang(net, 0), gang(net, 1)]
    since = max(member.own for member in pair)
    for _ in range(50):
        for member in pair:
            member.send_all()
    assert all(member.last_active() < since + 0.5 for member in pair)


def test_a_machine_that_fell_silent_ages_like_any_other(tmp_path: Path) -> None:
    net = Net()
    first, second = gang(net, 0), gang(net, 1)
    second.own = boottime()
    second.send_all()
    guards = GuardClocks(tmp_path, second.own, 0.0, "boot")
    guards.set(check_guards({"poweroff": "true", "idle_seconds": 60}))
    for later in (30.0, 59.0, 61.0):
        guards.tick(second.own + later, 0.0, [])
        guards.note_peer_activity(first.last_active())
        assert (guards.due() is not None) == (later > 60)


def test_what_was_heard_never_counts_as_later_than_now(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 100.0, 0.0, "boot")
    guards.set(check_guards({"poweroff": "true", "idle_seconds": 60}))
    guards.tick(110.0, 0.0, [])
    guards.note_peer_activity(1e9)
    guards.tick(170.0, 0.0, [])
    assert guards.due() is not None


def test_an_old_word_counts_for_nothing_again() -> None:
    net = Net()
    first, second = gang(net, 0), gang(net, 1)
    first.send_all()
    net.is_cut = True
    second.own = boottime()
    second.send_all()
    word, _ = net.carried[-1]
    first.datagram_received(word, None)
    known = first.last_active()
    second.own -= 500.0
    first.datagram_received(word, None)
    assert first.last_active() == known
    again = GangHeartbeat(first.path.parent, first.own, no_jobs())  # its agent was started anew
    again.transport = net  # type: ignore[assignment]
    again.datagram_received(word, None)
    assert again.last_active() == -math.inf


def test_an_agent_that_started_anew_is_heard_and_hears() -> None:
    net = Net()
    first, second = gang(net, 0), gang(net, 1)
    first.send_all()
    fresh = GangHeartbeat(second.path.parent, boottime(), no_jobs())
    fresh.transport = net  # type: ignore[assignment]
    net.members[fresh.here] = fresh
    fresh.send_all()
    assert first.last_active() == pytest.approx(fresh.own, abs=0.5)
    assert fresh.peers[0].heard is not None


def test_another_clusters_word_is_not_believed_and_gets_no_answer() -> None:
    net = Net()
    first, stranger = gang(net, 0), gang(net, 1, secret="cd" * 32)
    stranger.send_all()
    assert first.last_active() == -math.inf
    assert len(net.carried) == 1


def test_a_word_to_another_node_is_not_ours() -> None:
    net = Net()
    first, second, third = (gang(net, rank, 3) for rank in range(3))
    net.is_cut = True
    second.send(2, second.peers[2], third.nonce)
    word, _ = net.carried[-1]
    first.datagram_received(word, None)
    assert first.peers[1].heard is None


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=600),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda x: st.lists(x, max_size=3),
        )
        .map(json.dumps)
        .map(str.encode),
        st.fixed_dictionaries(
            {},
            optional={
                "from": st.one_of(st.integers(), st.text(max_size=3), st.none()),
                "to": st.one_of(st.just(0), st.floats(), st.none()),
                "i": st.one_of(st.text(max_size=20), st.none()),
                "you": st.one_of(st.just("me"), st.text(max_size=3)),
                "n": st.one_of(st.integers(), st.floats(), st.none()),
                "idle": st.one_of(st.floats(), st.integers(), st.text(max_size=3)),
            },
        ),
    )
)
def test_no_word_does_harm_even_under_the_secret(word: Any) -> None:
    net = Net()
    first = gang(net, 0)
    first.transport = net  # type: ignore[assignment]
    body = (
        word
        if isinstance(word, bytes)
        else json.dumps(
            {**word, **({"you": first.nonce} if word.get("you") == "me" else {})}
        ).encode()
    )
    for data in (body, first.sign(body) + body):
        first.datagram_received(data, None)
    assert first.last_active() <= boottime()


@pytest.mark.parametrize(
    "config",
    [
        {"rank": 2, "nodes": [["10.0.0.1", 1], ["10.0.0.2", 1]], "secret": SECRET},
        {"rank": 0, "nodes": [["10.0.0.1", 0]], "secret": SECRET},
        {"rank": 0, "nodes": [["evil.example", 1]], "secret": SECRET},
        {"rank": 0, "nodes": [["10.0.0.1", 1]], "secret": "ab"},
        {"rank": "0", "nodes": [["10.0.0.1", 1]], "secret": SECRET},
    ],
)
def test_addresses_that_are_none_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises((RequestError, ValueError)):
        check_gang(config)


def test_a_spoilt_file_of_addresses_costs_no_more_than_the_gang(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"rank": 5}', '{"rank": 0, "nodes": [["10.0.0.1", 1]], "secret": 5}'):
        (tmp_path / "gang.json").write_text(text)
        assert GangHeartbeat(tmp_path, 0.0, no_jobs()).peers == {}


def test_words_go_often_enough_for_a_short_idle_time(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    assert guards.gang_pause() == GANG_SECONDS
    guards.set(check_guards({"poweroff": "true", "idle_seconds": 60}))
    assert guards.gang_pause() == 6.0
    assert os.path.exists(tmp_path / "guards.json")
