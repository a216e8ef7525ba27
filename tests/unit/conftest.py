"""The prices that come with the project are parsed once a process: most homes of these tests begin empty, and each would parse them anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.store import builder as building
from nbprov.catalog.store import cache

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
