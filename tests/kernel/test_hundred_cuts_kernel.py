"""`%%on` over a connection that is cut a hundred times during one cell."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cutting_proxy import CuttingProxy, cutting_proxy
from kernels import CPU, new_kernel

CUTS = 100
LINES = 8

CELL = f"""%%on dev
import os, secrets, time
with open('ran', 'a') as file: file.write('once ')
for turn in range({CUTS + 1}):
    while not os.path.exists(f'go-{{turn}}'): time.sleep(0.002)
    for line in range({LINES}):
        print(turn, line, secrets.token_hex(40), flush=True)
"""

# From now on the engine reaches its machine through the proxy.
THROUGH = """
import nbprov
from nbprov.remote.ssh.connection import Connection
_open = Connection.open.__func__
async def _through(cls, host, port, *rest):
    return await _open(cls, "127.0.0.1", {port}, *rest)
Connection.open = classmethod(_through)
_engine = nbprov.session().engine
"""


@contextmanager
def proxy_in_thread(
    host: str, target: int
) -> Iterator[tuple[CuttingProxy, asyncio.AbstractEventLoop]]:
    """A proxy that cuts connections, with its own event loop."""
    ready, made = threading.Event(), {}

    async def serve() -> None:
        async with cutting_proxy(target, host) as proxy:
            made.update(proxy=proxy, loop=asyncio.get_running_loop(), end=asyncio.Event())
            ready.set()
            await made["end"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield made["proxy"], made["loop"]
    finally:
        made["loop"].call_soon_threadsafe(made["end"].set)
        thread.join()


def test_a_hundred_cuts_lose_nothing_double_nothing_and_run_nothing_twice(home) -> None:
    chance = random.Random(2026)
    with new_kernel(home) as kernel:
        kernel.run(f"%%provision dev --yes --wait\n{CPU}")
        kernel.run("%%on dev\n1")
        host, port = kernel.value(
            "[(m.host, m.port) for m in __import__('nbprov').cluster('dev').view().instances][0]"
        )
        with proxy_in_thread(host, port) as (proxy, loop):
            kernel.run(THROUGH.format(port=proxy.port))
            kernel.run(
                "_engine.thread.soon(lambda: [n.agent.connection.abort() for live in "
                "_engine.live.values() for n in live.nodes])"
            )
            (machine,) = (home / "local" / "i").glob("*/home")
            request = kernel.send(CELL)
            (machine / "go-0").touch()
            for turn in range(1, CUTS + 1):
                kernel.until(
                    lambda n=LINES * turn: kernel.outcome(request).text.count("\n") >= n,
                    f"round {turn}",
                )
                loop.call_soon_threadsafe(proxy.cut_after, chance.randrange(1, 800))
                (machine / f"go-{turn}").touch()
            outcome = kernel.finish(request)
            assert outcome.error is None, outcome.error_text
            assert proxy.cuts == CUTS
        numbered = [tuple(map(int, line.split()[:2])) for line in outcome.text.splitlines()]
        assert numbered == [(turn, line) for turn in range(CUTS + 1) for line in range(LINES)]
        assert (machine / "ran").read_text() == "once "


def test_cut_is_a_cut(home) -> None:
    """The proxy does what the test above relies on: nothing beyond the cut arrives."""

    async def ask() -> bytes:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"0123456789")
            await writer.drain()

        async with (
            await asyncio.start_server(talk, "127.0.0.1", 0) as server,
            cutting_proxy(server.sockets[0].getsockname()[1]) as proxy,
        ):
            proxy.cut_after(4)
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            found = b""
            try:
                while data := await reader.read(1):
                    found += data
            except ConnectionResetError:
                pass
            writer.close()
            assert proxy.cuts == 1
            return found

    assert len(asyncio.run(ask())) <= 4
