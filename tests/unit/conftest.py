"""What unit tests share.

Prices are parsed once a process, since most homes of these tests begin empty and each would parse
the shipped prices anew; the `local` cloud's daemons are forked; tests may be coroutines; ledgers
can have their texts replaced.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from local_daemon import fork_daemons

from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.store import builder as building
from nbprov.catalog.store import cache
from nbprov.provisioning.ledger import Ledger, sqlite_store
from nbprov.provisioning.ledger.schema import MIGRATIONS
from nbprov.remote.sync import inert_names

sys.path.insert(0, str(Path(__file__).parent))

from replaced_texts import are_random, triggers

TEST_SECONDS = 180.0
"""A coroutine test takes less than a tenth of this; it only ends one that hangs."""
COME_SECONDS = 60.0
"""How long something awaited may take on a machine busy with other tests."""
BARE = re.compile("[a-z]+[0-9]*", re.ASCII)
KEPT = 4
"""Number of stores that are kept. Each takes some megabytes, and few are asked for again."""


@pytest.fixture(autouse=True)
def _daemons_are_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Save each start of a daemon a new Python, except in the tests of that start."""
    # Not with the fixture `monkeypatch`: a test's own patches would then be undone last of all.
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.is_relative_to(Path(__file__).parent / "clouds" / "local"):
            fork_daemons(patch)
        yield


@pytest.fixture
def bare_names() -> Iterator[None]:
    """Files of a machine called `a` or `best2` count as data, for tests about other things.

    What names become is the subject of `test_inert_names.py` and `test_outputs_names.py`.
    """
    real = inert_names.is_data_name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            inert_names, "is_data_name", lambda name: bool(BARE.fullmatch(name)) or real(name)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _shipped_prices_are_built_once() -> Iterator[None]:
    """The same bytes for the same content, which is what the cache's file is named after; all that
    reads, writes and checks it still runs.
    """
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


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test with a ledger in which every text for people becomes random words."""
    monkeypatch.setattr(sqlite_store, "MIGRATIONS", (*MIGRATIONS, triggers()))
    close, seen = Ledger.close, list[bool]()

    def look(ledger: Ledger) -> None:
        seen.append(are_random(ledger))
        close(ledger)

    monkeypatch.setattr(Ledger, "close", look)
    yield
    assert all(seen), "a text was written as it is"


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
