"""The publisher sends few messages of many changes, and the last one is the final state."""

from __future__ import annotations

import asyncio
import threading

from nbprov.runtime.publisher import Publisher

CHANGES = 10_000
INTERVAL = 0.05


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

        threading.Thread(target=change).start()
        async with asyncio.timeout(30):
            await is_final.wait()
        await asyncio.sleep(2 * INTERVAL)
        return loop.time() - begun

    passed = asyncio.run(publish())
    assert sent[-1] == CHANGES
    assert sent == sorted(sent), "nothing older comes after what is newer"
    assert len(sent) <= passed / INTERVAL + 1


def test_a_last_state_that_could_not_be_sent_is_sent_again() -> None:
    sent: list[str] = []
    failing = [OSError("the socket is closed")]

    def send() -> None:
        if failing:
            raise failing.pop()
        sent.append("final")

    async def publish() -> None:
        Publisher(asyncio.get_running_loop(), INTERVAL).mark("panel", send)
        await asyncio.sleep(5 * INTERVAL)

    asyncio.run(publish())
    assert sent == ["final"]
