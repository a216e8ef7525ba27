"""The publisher sends few messages of many changes, and the last one is the final state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from nbprov.runtime.publisher import Publisher

CHANGES = 10_000
INTERVAL = 0.05
LONG = 30.0


async def last_send(publisher: Publisher, send: Callable[[], None]) -> None:
    """Mark the display once more, and wait until that was sent: nothing is due then."""
    is_sent = asyncio.Event()

    def send_last() -> None:
        send()
        is_sent.set()

    publisher.mark("panel", send_last)
    await is_sent.wait()


def test_ten_thousand_changes_from_another_thread_end_in_the_true_state() -> None:
    states, sent = [0], list[int]()

    async def publish() -> float:
        loop, is_final = asyncio.get_running_loop(), asyncio.Event()
        publisher, begun = Publisher(loop, INTERVAL), loop.time()

        def send() -> None:
            sent.append(states[-1])
            if sent[-1] == CHANGES:
                is_final.set()

        def change() -> None:
            for number in range(1, CHANGES + 1):
                states.append(number)
                publisher.mark("panel", send)

        changing = threading.Thread(target=change)
        changing.start()
        async with asyncio.timeout(LONG):
            await is_final.wait()
            await asyncio.to_thread(changing.join)
            await last_send(publisher, send)
        return loop.time() - begun

    passed = asyncio.run(publish())
    assert sent[-1] == CHANGES
    assert sent == sorted(sent), "nothing older comes after what is newer"
    assert len(sent) <= passed / INTERVAL + 1, "changes within an interval are sent together"


def test_a_last_state_that_could_not_be_sent_is_sent_again() -> None:
    sent: list[str] = []
    failing = [OSError("the socket is closed")]

    async def publish() -> None:
        is_sent = asyncio.Event()

        def send() -> None:
            if failing:
                raise failing.pop()
            sent.append("final")
            is_sent.set()

        publisher = Publisher(asyncio.get_running_loop(), INTERVAL)
        publisher.mark("panel", send)
        async with asyncio.timeout(LONG):
            await is_sent.wait()
            await last_send(publisher, lambda: sent.append("later"))

    asyncio.run(publish())
    assert sent == ["final", "later"], "it is sent once, and nothing comes after what is newer"
