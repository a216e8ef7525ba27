"""Prices that are parsed once a process, and ledgers whose texts for people are replaced.

Most homes of these tests begin empty, and each would parse the prices that come with the project anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.store import builder as building
from nbprov.catalog.store import cache
from nbprov.provisioning.ledger import Ledger, sqlite_store
from nbprov.provisioning.ledger.schema import MIGRATIONS

sys.path.insert(0, str(Path(__file__).parent))

from replaced_texts import are_random, triggers

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


@pytest.fixture(params=["as written", "replaced"])
def texts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs a test with a ledger as it is, and with one in which every text for people becomes random words."""
    if request.param == "as written":
        yield
        return
    monkeypatch.setattr(sqlite_store, "MIGRATIONS", (*MIGRATIONS, triggers()))
    close, seen = Ledger.close, list[bool]()

    def look(ledger: Ledger) -> None:
        seen.append(are_random(ledger))
        close(ledger)

    monkeypatch.setattr(Ledger, "close", look)
    yield
    assert all(seen), "a text was written as it is"
