"""The market file of a state directory, and the one that is shipped for the quickstart."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from nbprov.model.paths import open_private

from .market import MarketError, SimulatedMarket, SimulatedOffer, parse

MARKET_FILE = "market.toml"


def shipped() -> str:
    """Return the text of the quickstart's market file."""
    return files(__package__).joinpath(MARKET_FILE).read_text(encoding="utf-8")


class MarketFile:
    """The market file of a state directory, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MARKET_FILE
        self._stamp: tuple[int, int, int] | None = None
        self._market: SimulatedMarket | None = None

    def read(self) -> SimulatedMarket:
        """Return the current market; if there is no file, the shipped one is copied first.

        Raises
        ------
        MarketError
            If the file is invalid; it is read again when it changes.
        """
        if not self.path.exists():
            with open(self.path, "w", encoding="utf-8", opener=open_private) as file:
                file.write(shipped())
        found = self.path.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._market is None or stamp != self._stamp:
            from nbprov.model.clock import iso

            try:
                self._market = parse(
                    self.path.read_text(encoding="utf-8"), iso(found.st_mtime)[:10]
                )
            except UnicodeDecodeError as error:
                raise MarketError(f"{self.path.name} is not UTF-8: {error}") from None
            self._stamp = stamp
        return self._market

    def row_of(self, arguments: Mapping[str, Any]) -> SimulatedOffer | None:
        """Return the row of a request's region, zone, type and market; None if that is not sold.

        Raises
        ------
        MarketError
            If the file is invalid.
        """
        return self.read().row(
            arguments["region"], arguments["zone"], arguments["type"], arguments["market"]
        )
