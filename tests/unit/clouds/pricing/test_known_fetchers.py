"""Which clouds have a price list of their own."""

from __future__ import annotations

from nbprov.catalog.catalog import shipped_folder
from nbprov.clouds.pricing import fetcher


def test_every_known_cloud_has_a_fetcher_and_shipped_prices() -> None:
    shipped = {path.name for path in shipped_folder().iterdir() if path.is_dir()}
    assert "aws" in fetcher.known()
    for cloud in fetcher.known():
        assert fetcher.find(cloud) is not None
        assert cloud in shipped
