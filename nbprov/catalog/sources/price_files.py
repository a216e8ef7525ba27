"""Find the files that hold each cloud's prices.

Candidates are the shipped snapshot, the user's own copy, the copy that was last readable, and
overrides. A cloud's own folder in `catalogs` of nbprov's home holds what a refresh wrote, in the v8
layout (`vms.csv`) or in nbprov's own form. It replaces the shipped prices, unless those are newer.
Overrides lie in a folder of their own, which no refresh touches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.model.paths import home

from . import moved_prices, skypilot_csv, snapshot
from .price_entry import PriceEntry, Reading

LAST_GOOD = ".last-good"
"""Folder inside a cloud's folder with a copy of the files that were last readable.

The copy is read if the files in place cannot be.
"""
CUSTOM_ENDING = "_custom.csv"
USER_FOLDER = "catalogs"
OVERRIDE_FOLDER = "overrides"

YOURS = "your copy"
LAST = "your last good copy"
SHIPPED = "shipped"
GIVEN = "given folder"

Stamp = tuple[tuple[int, int, int], ...]
_ABSENT = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder with one folder for each cloud, and its name in messages."""

    folder: Path
    label: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One set of files that can serve as a cloud's prices.

    It is the three files of nbprov's own form, or one file of the v8 layout.
    """

    folder: Path
    files: tuple[Path, ...]
    label: str


@dataclass(frozen=True, slots=True)
class CloudFiles:
    """The files that a cloud's rows come from.

    Attributes
    ----------
    choices
        The best comes first; if it cannot be read, the next one is.
    overrides
        In the order in which they are laid over the rows.
    passed_over
        Why the user's copy is not used, in words; empty if none was passed over.
    moved
        The file with what is remembered of prices that moved.
    """

    choices: tuple[Choice, ...]
    overrides: tuple[Path, ...] = ()
    passed_over: str = ""
    moved: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that the rows may depend on."""
        moved = () if self.moved is None else (self.moved,)
        return (
            *(path for choice in self.choices for path in choice.files),
            *self.overrides,
            *moved,
        )

    @property
    def shipped(self) -> Choice | None:
        """The shipped prices of the cloud, if there are any."""
        return next((choice for choice in self.choices if choice.label == SHIPPED), None)


Files = dict[str, CloudFiles]


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders that make up a catalogue.

    Attributes
    ----------
    layers
        If two have the same cloud, the files of the later one are used.
    overrides
        Folder of the user's overrides: `<cloud>.csv` and `<cloud>/*.csv`.
    newer_wins
        Whether the first layer is used for a cloud after all if its prices are newer.
    """

    layers: tuple[Layer, ...]
    overrides: Path | None = None
    newer_wins: bool = False

    @staticmethod
    def usual(shipped: Path) -> Layout:
        """Return the layout of the shipped prices with the user's copies and overrides."""
        return Layout(
            (Layer(shipped, SHIPPED), Layer(user_folder(), YOURS)),
            override_folder(),
            newer_wins=True,
        )

    @staticmethod
    def of(folders: Iterable[str | Path], overrides: str | Path | None = None) -> Layout:
        """Return the layout of these folders."""
        return Layout(
            tuple(Layer(Path(f), GIVEN) for f in folders),
            Path(overrides) if overrides is not None else None,
        )


@dataclass(slots=True)
class Found:
    """The result of a search through the folders.

    Attributes
    ----------
    watched
        Files and folders of which at least one changes when the prices do.
    """

    files: Files = field(default_factory=dict)
    watched: tuple[str, ...] = ()


def user_folder() -> Path:
    """Return `catalogs` in nbprov's home, where refreshes write and a user may edit."""
    return home() / USER_FOLDER


def override_folder() -> Path:
    """Return `overrides` in nbprov's home, the folder of a user's overrides."""
    return home() / OVERRIDE_FOLDER


def find(layout: Layout) -> Found:
    """Search the folders. No file is read; a folder that cannot be listed counts as empty."""
    choices: dict[str, list[Choice]] = {}
    customs: dict[str, list[Path]] = {}
    watched: list[Path] = []
    for layer in layout.layers:
        watched += [layer.folder, layer.folder / moved_prices.FOLDER]
        for place in _folders(layer.folder):
            last = place / LAST_GOOD
            watched += [place, last] if last.is_dir() else [place]
            found = [
                _choice(place, layer.label),
                _choice(
                    last, LAST if layer.label == YOURS else f"last good copy in the {layer.label}"
                ),
            ]
            # Files of a later layer come before those of earlier ones.
            choices[place.name] = [choice for choice in found if choice is not None] + choices.get(
                place.name, []
            )
            customs.setdefault(place.name, []).extend(sorted(place.glob(f"*{CUSTOM_ENDING}")))
    if layout.overrides is not None:
        watched.append(layout.overrides)
        for cloud, path in _overrides(layout.overrides):
            customs.setdefault(cloud, []).append(path)
        watched += _folders(layout.overrides)
    files = {}
    for cloud in sorted({*choices, *(c for c, paths in customs.items() if paths)}):
        ordered, note = _newest_first(choices.get(cloud, []), layout)
        if ordered or customs.get(cloud):
            moved = next((path for path in _moved(layout, cloud) if path.is_file()), None)
            files[cloud] = CloudFiles(tuple(ordered), tuple(customs.get(cloud, ())), note, moved)
    watched += [path for sources in files.values() for path in sources.paths]
    return Found(files, tuple(str(path) for path in watched))


def _moved(layout: Layout, cloud: str) -> list[Path]:
    """Where the user's folder remembers what moved of a cloud's prices."""
    return [
        moved_prices.MovedPrices.path(layer.folder, cloud)
        for layer in layout.layers
        if layer.label == YOURS
    ]


def stamp(watched: Sequence[str]) -> Stamp:
    """Return time, size and inode of each path, which show whether it changed."""
    seen = []
    for path in watched:
        try:
            # Called at every question, where a Path would cost as much as the call.
            status = os.stat(path)
            seen.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            seen.append(_ABSENT)
    return tuple(seen)


def read(choice: Choice, cloud: str) -> Reading:
    """Read a set of price files.

    Raises
    ------
    CatalogError
        If a file is missing, torn, not in its form, or holds no price.
    """
    own = choice.files[0].name != skypilot_csv.FILE_NAME
    reading = (
        snapshot.read(choice.folder, cloud) if own else skypilot_csv.read(choice.files[0], cloud)
    )
    if not reading.entries and not reading.left_out:
        name = f"{choice.folder.name}/{choice.files[0].name}"
        raise CatalogError(
            f"{name} holds no price",
            hint="refresh this cloud's prices, or restore them",
            code="catalog.no-prices",
        )
    return reading


def read_prices(folder: Path, cloud: str) -> list[PriceEntry]:
    """Read the rows of one cloud's folder as they stand there.

    Accelerators and hosts that are sold apart are not joined, and no price is hidden.

    Raises
    ------
    CatalogError
        If the folder holds no price files, or they cannot be read.
    """
    choice = _choice(folder, GIVEN)
    if choice is None:
        raise CatalogError(f"no price files in {folder}", code="catalog.empty")
    return read(choice, cloud).entries


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(
            place for place in folder.iterdir() if place.is_dir() and not place.name.startswith(".")
        )
    except OSError:
        return []


def _choice(folder: Path, label: str) -> Choice | None:
    """Return the price files in a folder; of two forms, the newer one.

    An incomplete set of nbprov's own form counts too, and is reported as damaged when it is read.
    """
    own = tuple(folder / name for name in snapshot.FILE_NAMES)
    hosted = (folder / skypilot_csv.FILE_NAME,)
    has_own, has_hosted = [path.is_file() for path in own], hosted[0].is_file()
    if all(has_own) and has_hosted:
        return Choice(folder, own if _changed(own) >= _changed(hosted) else hosted, label)
    if has_hosted:
        return Choice(folder, hosted, label)
    return Choice(folder, own, label) if any(has_own) else None


def _overrides(folder: Path) -> list[tuple[str, Path]]:
    found = [
        (place.name, path) for place in _folders(folder) for path in sorted(place.glob("*.csv"))
    ]
    try:
        found += [(path.stem, path) for path in sorted(folder.glob("*.csv")) if path.is_file()]
    except OSError:
        return found
    return sorted(found, key=lambda pair: (pair[0], str(pair[1])))


def _newest_first(choices: list[Choice], layout: Layout) -> tuple[list[Choice], str]:
    """Return the choices in order of preference, and why a user's copy was passed over."""
    if not layout.newer_wins or not choices:
        return choices, ""
    first = layout.layers[0].label
    theirs = [choice for choice in choices if choice.label != first]
    ours = [choice for choice in choices if choice.label == first]
    if not theirs or not ours:
        return choices, ""
    made, shipped = _date(_changed(theirs[0].files)), _newest(ours[0])
    if not shipped or made >= shipped:
        return choices, ""
    return (
        ours + theirs,
        f"{theirs[0].label} of {made} is older than the {first} prices of {shipped}",
    )


def _changed(files: Sequence[Path]) -> float:
    times = []
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _newest(choice: Choice) -> str:
    """Return the newest date of prices in nbprov's own form, or the file's time in the v8 layout.

    The answer is empty if the date cannot be read.
    """
    if choice.files[0].name == skypilot_csv.FILE_NAME:
        return _date(_changed(choice.files))
    try:
        return max((as_of for _, as_of, _ in snapshot.sources(choice.folder)), default="")
    except (CatalogError, ValueError):
        return ""
