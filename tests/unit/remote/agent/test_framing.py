"""What a machine sends in the agent's place.

Refused with one line, never more memory than a bound, never an error of another kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.on_machine.agent.framing import FRAME_LIMIT
from nbprov.remote.agent import channel as linking
from nbprov.remote.agent.channel import AgentChannel, ChannelLost, OutputQueue
from nbprov.remote.agent.framing import AgentError, number, pack, parsed, printable, size_of, unpack
from nbprov.remote.agent.messages import AgentStatus, TaskInfo, guard_states
from nbprov.remote.ssh.connection import Connection

Connected = Callable[[Any], AbstractAsyncContextManager[Connection]]

HELLO = {"ev": "hello", "version": "1", "protocol": 1, "hash": "h", "pid": 1}

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["re", "ev", "follow", "entries", "n", "t", "k"]), inner)
    ),
    max_leaves=8,
)


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_what_an_agent_sends_passes() -> None:
    entry = {"n": 1, "t": 1.5, "k": "stdout", "text": "x"}
    for frame in (
        HELLO,
        {"re": 1},
        {"re": 2, "error": {"code": "a", "message": "b"}},
        {"ev": "out", "follow": "f", "entries": [entry]},
    ):
        assert unpack(pack(frame)[4:]) == frame


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 5000,
        body([1]),
        body({}),
        body({"re": "1"}),
        body({"re": 1, "error": "no"}),
        body({"re": 1, "error": {"code": "x"}}),
        body({"ev": "out", "follow": 1, "entries": []}),
        body({"ev": "out", "follow": "f", "entries": {}}),
        body({"ev": "out", "follow": "f", "entries": [{"n": 0, "t": 1, "k": "stdout"}]}),
        body({"ev": "out", "follow": "f", "entries": [{"n": True, "t": 1, "k": "stdout"}]}),
        body({"ev": "out", "follow": "f", "entries": [{"n": 1, "t": float("nan"), "k": "stdout"}]}),
        body({"ev": "out", "follow": "f", "entries": [{"n": 1, "t": 1e308, "k": "stdout"}]}),
        body({"ev": "out", "follow": "f", "entries": [{"n": 1, "t": -1, "k": "stdout"}]}),
        body({"ev": "out", "follow": "f", "entries": [{"n": 2**60, "t": 1, "k": "stdout"}]}),
        body(
            {
                "ev": "out",
                "follow": "f",
                "entries": [{"n": 1, "t": 1, "k": "stdout", "content": "x"}],
            }
        ),
        body({"ev": "hello", "version": 1, "protocol": 1, "hash": "h"}),
        body({"ev": "hello", "version": "1", "protocol": "1", "hash": "h"}),
    ],
)
def test_what_no_agent_sends_is_refused(bad: bytes) -> None:
    with pytest.raises(AgentError, match="no answer of nbprov's agent") as raised:
        unpack(bad)
    assert raised.value.code == "agent.foul"
    assert len(str(raised.value)) < 300


@given(JSON)
def test_anything_is_a_frame_or_is_refused(value: Any) -> None:
    try:
        frame = unpack(body(value))
    except AgentError:
        return
    assert isinstance(frame, dict)
    assert "re" in frame or isinstance(frame["ev"], str)


@given(JSON)
def test_any_answer_is_understood_or_refused(value: Any) -> None:
    for read in (TaskInfo.of, AgentStatus.of, guard_states):
        with contextlib.suppress(AgentError):
            parsed(read, value)


def test_half_a_character_is_refused_before_it_is_sent() -> None:
    with pytest.raises(AgentError, match="half of a character") as caught:
        pack({"op": "run", "env": {"X": "a\ud800"}})
    assert caught.value.code == "agent.text"
    whole = {"code": "print('\U0001f40d', r'\\ud800')"}
    assert json.loads(pack(whole)[4:]) == whole


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    assert size_of(struct.pack(">I", FRAME_LIMIT)) == FRAME_LIMIT
    with pytest.raises(AgentError):
        size_of(struct.pack(">I", FRAME_LIMIT + 1))


@given(st.text())
def test_words_are_one_line_without_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= 2000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None])
def test_a_number_is_a_finite_one(value: object) -> None:
    with pytest.raises(TypeError):
        number(value)


SENDS = """
import json, struct, sys, time
def send(data): sys.stdout.buffer.write(data); sys.stdout.buffer.flush()
def frame(value): body = json.dumps(value).encode(); return struct.pack('>I', len(body)) + body
{what}
sys.stdin.buffer.read()
"""


def sender(what: str) -> str:
    import shlex

    return f"python3 -c {shlex.quote(SENDS.format(what=what))}"


@pytest.mark.machine
@pytest.mark.parametrize(
    "what",
    [
        "send(b'SSH-2.0 hello there')",
        "send(frame([1]))",
        "send(frame({'re': 1}))",
        "send(struct.pack('>I', 2**32 - 1))",
    ],
)
async def test_a_machine_without_an_agents_greeting_is_named_as_such(
    shared_machine: Any, connected: Connected, what: str
) -> None:
    async with connected(shared_machine) as connection:
        with pytest.raises(AgentError) as raised:
            await AgentChannel.open(connection, sender(what))
        assert raised.value.code == "agent.foul"


@pytest.mark.machine
async def test_a_machine_that_turns_foul_ends_what_was_asked(
    shared_machine: Any, connected: Connected
) -> None:
    what = (
        f"send(frame({HELLO!r})); sys.stdin.buffer.read(4); send(frame({{'ev': 'out',"
        " 'follow': 'f', 'entries': [3]}))"
    )
    async with connected(shared_machine) as connection:
        link = await AgentChannel.open(connection, sender(what))
        followed = link.follows["f"] = OutputQueue()
        with pytest.raises(AgentError) as raised:
            await link.ask("ping")
        assert raised.value.code == "agent.foul"
        assert await followed.get() is None
        assert link.malformed is raised.value
        with pytest.raises(ChannelLost):
            await link.ask("ping")
        await link.close()


@pytest.mark.machine
async def test_output_that_nobody_reads_waits_on_the_machine(
    shared_machine: Any, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "FOLLOW_LIMIT", 1_000_000)
    entry = "{'n': n, 't': 0, 'k': 'stdout', 'text': 'x' * 50_000}"
    flood = (
        f"send(frame({HELLO!r}))\nfor n in range(1, 100): send(frame({{'ev': 'out',"
        f" 'follow': 'f', 'entries': [{entry}]}}))"
    )
    async with connected(shared_machine) as connection:
        link = await AgentChannel.open(connection, sender(flood))
        followed = link.follows["f"] = OutputQueue()
        async with asyncio.timeout(30):
            await followed.closed.wait()
        most = followed.waiting
        assert 1_000_000 < most < 1_100_000
        seen = 0
        while (frame := await followed.get()) is not None:
            seen += 1
            assert frame["entries"][0]["n"] == seen
        assert followed.waiting == 0
        assert seen == most // 50_000
        await link.close()


HEAVY = {
    "lists": b"[" + b"[]," * 21_000_000 + b"[]]",
    "numbers": b"[" + b"1," * 32_000_000 + b"1]",
    "objects in an answer": b'{"re":1,"a":[' + b"{}," * 20_000_000 + b"{}]}",
    "texts": b"[" + b'"",' * 20_000_000 + b'""]',
    "keys": b'{"re":1,"a":{' + b",".join(b'"%d" : 1' % n for n in range(1_800_000)) + b"}}",
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_frame_that_would_become_gigabytes_is_refused_before_it_is_read(name: str) -> None:
    began = time.process_time()
    with pytest.raises(AgentError, match="too many parts"):
        unpack(HEAVY[name])
    assert time.process_time() - began < 5.0, "to read it takes ten"


async def test_a_heavy_frame_is_read_while_the_loop_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reading here waits for what a task beside it does, and gets it."""
    loop = asyncio.get_running_loop()
    begun, turned = asyncio.Event(), threading.Event()
    waited: list[bool] = []

    def slow_unpack(body: bytes) -> dict[str, Any]:
        loop.call_soon_threadsafe(begun.set)
        waited.append(turned.wait(5.0))
        return unpack(body)

    async def renew() -> None:
        await begun.wait()
        turned.set()

    monkeypatch.setattr(linking, "unpack", slow_unpack)
    stdout = asyncio.StreamReader()
    stdout.feed_data(pack({"ev": "warning", "text": "x" * (linking.LIGHT_FRAME + 1)}))
    process: Any = SimpleNamespace(stdout=stdout)
    channel = AgentChannel(process, contextlib.AsyncExitStack())
    (frame, size), _ = await asyncio.gather(channel._read(), renew())
    assert waited == [True]
    assert frame is not None
    assert (frame["ev"], size > linking.LIGHT_FRAME) == ("warning", True)


LONG_TO_READ = {
    "escapes": b'{"re":1,"text":"' + b"\\n" * 30_000_000 + b'"}',
    "wide escapes": b'{"re":1,"text":"' + b"\\u00e4" * 9_500_000 + b'"}',
    "points": b'{"re":1,"a":[' + b"[1.25,2.5]," * 1_700_000 + b"[]]}",
    "the most points": b'{"re":1,"a":[' + b"[1.25,2.5]," * 490_000 + b"1," * 5_000_000 + b"[]]}",
}


@pytest.mark.parametrize("name", LONG_TO_READ)
def test_no_step_of_reading_a_frame_keeps_ctrl_c_from_being_heard(name: str) -> None:
    """A million numbers are read in 0.03 s, or 0.06 s on a slow computer: it is within a second."""
    numbers = b"[" + b"1," * 1_000_000 + b"1]"
    one = min(_longest_step(lambda: json.loads(numbers)) for _ in range(3))
    assert _longest_step(lambda: unpack(LONG_TO_READ[name])) < 16 * one


def _longest_step(work: Callable[[], object]) -> float:
    """Return the processor time between two moments at which another thread may run.

    Those are the calls and returns of functions, of which the interpreter tells.
    """
    last, longest = time.thread_time(), 0.0

    def note(*_: object) -> None:
        nonlocal last, longest
        now = time.thread_time()
        last, longest = now, max(longest, now - last)

    sys.setprofile(note)
    try:
        with contextlib.suppress(AgentError):
            work()
    finally:
        sys.setprofile(None)
    return longest


@pytest.mark.parametrize("cut", [b'"', b"\\", b'\\"', b""])
def test_a_large_frame_that_is_cut_within_a_text_is_refused(cut: bytes) -> None:
    with pytest.raises(AgentError):
        unpack(b'{"re":1,"a":"' + b"x" * 1_100_000 + cut)


def test_a_large_display_is_read() -> None:
    rows = [[n, n / 7, f'a "quoted" \\ text {n}, [with] {{marks}}'] for n in range(100_000)]
    frame = {"re": 1, "data": rows, "text": '[{,"\\' * 2_000_000}
    assert unpack(json.dumps(frame).encode()) == frame
