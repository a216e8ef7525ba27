"""What unit tests share: prices parsed once a process, and tests that are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.store import builder as building
from nbprov.catalog.store import cache

TEST_SECONDS = 180.0
"""A coroutine test takes less than a tenth of this; it only ends one that hangs."""
COME_SECONDS = 60.0
"""How long something awaited may take on a machine busy with other tests."""
KEPT = 4
"""So many stores are kept; each has some megabytes, and few contents of files are asked for again."""


@pytest.fixture(scope="session", autouse=True)
def _shipped_prices_are_built_once() -> Iterator[None]:
    """The same bytes for the same content, which is what the cache's file is named after; all that reads, writes and checks it still runs."""
    build, shipped = building.build, shipped_folder()
    made: dict[str, bytes] = {}

    def once(files: cache.Files) -> bytes:
        if not any(
            path.is_relative_to(shipped) for sources in files.values() for path in sources.paths
        ):
            return build(files)
        content = cache._content(files)
        data = made.pop(content, None)
        if data is None:
            data = build(files)
            if cache._content(files) != content:
                return data
        made[content] = data
        while len(made) > KEPT:
            del made[next(iter(made))]
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "build", once)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not asyncio.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(getattr(pyfuncitem.obj, "seconds", TEST_SECONDS)):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True


async def _until(condition: Callable[[], bool], what: str, seconds: float = COME_SECONDS) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.02)


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Wait for something outside this process, looking often; fails by name."""
    return _until
