"""A stuck call in a cloud's worker pool holds up no other call."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nbprov.runtime.worker_pool import WorkerPool


def test_two_calls_made_at_once_do_not_wait_for_each_other_on_one_idle_thread() -> None:
    workers, gate = WorkerPool("test"), threading.Event()
    workers.submit(lambda: None).result(5)
    stuck = workers.submit(lambda: gate.wait(5))
    assert workers.submit(lambda: "done").result(2) == "done"
    gate.set()
    assert stuck.result(5)


def test_calls_that_never_answer_do_not_starve_the_rest() -> None:
    workers, gate = WorkerPool("test", most=2), threading.Event()

    async def main() -> str:
        stuck = [asyncio.create_task(workers.run(gate.wait, 5, seconds=0.05)) for _ in range(2)]
        for task in stuck:
            with pytest.raises(TimeoutError, match="no answer within"):
                await task
        return await workers.run(lambda: "done", seconds=2)

    assert asyncio.run(main()) == "done"
    gate.set()


def test_what_a_call_raises_reaches_who_asked() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(WorkerPool("test").run(lambda: 1 / 0, seconds=2))


@pytest.mark.parametrize("turns", range(8))
def test_who_is_cancelled_while_the_answer_comes_in_does_not_go_on(turns: int) -> None:
    async def main() -> None:
        workers, gate = WorkerPool("test", most=1), threading.Event()
        task = asyncio.create_task(workers.run(gate.wait, 60, seconds=60))
        await asyncio.sleep(0)
        gate.set()
        workers.submit(int).result(60)  # the one thread has given the answer before
        for _ in range(turns):
            await asyncio.sleep(0)
        is_cancelled = task.cancel()
        if is_cancelled:
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert await task is True

    asyncio.run(main())
