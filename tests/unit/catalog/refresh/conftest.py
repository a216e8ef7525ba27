"""A mirror and a home for the tests of refreshing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import price_mirror
import price_world
import pytest

from nbprov.catalog.refresh import PriceFileStore


@pytest.fixture
def mirror() -> Iterator[price_mirror.Mirror]:
    """A hosted mirror of nothing."""
    with price_mirror.mirror() as made:
        yield made


@pytest.fixture
def upkeep(mirror: price_mirror.Mirror, nbprov_home: Path, tmp_path: Path) -> PriceFileStore:
    """The price files of the test's home, fetched from the mirror; no shipped prices."""
    price_world.settings(nbprov_home, mirror.address)
    return price_world.upkeep(nbprov_home, tmp_path / "shipped")
