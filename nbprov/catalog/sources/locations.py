"""Which files hold each cloud's prices: the shipped snapshot, the user's own copy, copies of the
last good one, overrides.

A cloud's own folder in `catalogs` of nbprov's home holds what a refresh wrote, either in the v8
layout (`vms.csv`) or in nbprov's own form. It stands instead of the shipped prices, unless those
are newer. Overrides lie apart and are never touched by a refresh."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.model.paths import home

from . import skypilot_csv, snapshot
from .price_entry import Entry, Reading

LAST_GOOD = ".last-good"
"""Folder inside a cloud's own.

A copy of the files that last could be read, tried when those in place cannot.
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
    """A folder with one folder a cloud in it, and what it is called in a message."""

    folder: Path
    label: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One set of files that can stand for a cloud.

    The three of nbprov's own form, or one of the v8 layout.
    """

    folder: Path
    files: tuple[Path, ...]
    label: str


@dataclass(frozen=True, slots=True)
class CloudFiles:
    """Where a cloud's rows come from.

    Attributes
    ----------
    choices
        The best first; the next is read where one cannot be.
    overrides
        In the order in which they are laid over the rows.
    passed_over
        Why a copy of the user's does not stand, in words; empty where none was passed over.
    """

    choices: tuple[Choice, ...]
    overrides: tuple[Path, ...] = ()
    passed_over: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file that the rows may depend on."""
        return (*(path for choice in self.choices for path in choice.files), *self.overrides)


Files = dict[str, CloudFiles]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which folders make a catalogue.

    Attributes
    ----------
    layers
        Where two have the same cloud, the later one's files stand.
    overrides
        Folder of the user's overrides: `<cloud>.csv` and `<cloud>/*.csv`.
    newer_wins
        Whether the first layer stands nevertheless for a cloud of which it has the newer prices.
    """

    layers: tuple[Layer, ...]
    overrides: Path | None = None
    newer_wins: bool = False

    @staticmethod
    def usual(shipped: Path) -> Layout:
        """The shipped prices, the user's copies and overrides."""
        return Layout(
            (Layer(shipped, SHIPPED), Layer(user_folder(), YOURS)),
            override_folder(),
            newer_wins=True,
        )

    @staticmethod
    def of(folders: Iterable[str | Path], overrides: str | Path | None = None) -> Layout:
        """Folders that were named."""
        return Layout(
            tuple(Layer(Path(f), GIVEN) for f in folders),
            Path(overrides) if overrides is not None else None,
        )


@dataclass(slots=True)
class Found:
    """What a look at the folders found.

    Attributes
    ----------
    watched
        Files and folders of which at least one changes when the prices do.
    """

    files: Files = field(default_factory=dict)
    watched: tuple[str, ...] = ()


def user_folder() -> Path:
    """Where refreshes write and a user may edit: `catalogs` in nbprov's home."""
    return home() / USER_FOLDER


def override_folder() -> Path:
    """Where a user's overrides lie: `overrides` in nbprov's home."""
    return home() / OVERRIDE_FOLDER


def find(layout: Layout) -> Found:
    """Look at the folders. Nothing is read; a folder that cannot be looked into counts as empty."""
    choices: dict[str, list[Choice]] = {}
    customs: dict[str, list[Path]] = {}
    watched: list[Path] = []
    for layer in layout.layers:
        watched.append(layer.folder)
        for place in _folders(layer.folder):
            last = place / LAST_GOOD
            watched += [place, last] if last.is_dir() else [place]
            found = [
                _choice(place, layer.label),
                _choice(
                    last, LAST if layer.label == YOURS else f"last good copy in the {layer.label}"
                ),
            ]
            # A later layer stands before what earlier ones have.
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
            files[cloud] = CloudFiles(tuple(ordered), tuple(customs.get(cloud, ())), note)
    watched += [path for sources in files.values() for path in sources.paths]
    return Found(files, tuple(str(path) for path in watched))


def stamp(watched: Sequence[str]) -> Stamp:
    """What tells whether one of these changed: time, size and inode of each."""
    seen = []
    for path in watched:
        try:
            status = os.stat(path)  # at every question: a Path would cost as much as the call
            seen.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            seen.append(_ABSENT)
    return tuple(seen)


def read(choice: Choice, cloud: str) -> Reading:
    """Read a set of files.

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


def read_prices(folder: Path, cloud: str) -> list[Entry]:
    """The rows of one cloud's folder as they stand there: accelerators and hosts sold apart are not
    joined, nothing is hidden.

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
    """The price files in a folder; where both forms are there, the newer one.

    A part of our own form alone counts, and will be called torn.
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
    """The choices in the order in which they stand, and why a user's copy was passed over."""
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
    """The newest date that prices of nbprov's own form bear; the file's time in the v8 layout.

    Empty where it cannot be read.
    """
    if choice.files[0].name == skypilot_csv.FILE_NAME:
        return _date(_changed(choice.files))
    try:
        return max((as_of for _, as_of, _ in snapshot.sources(choice.folder)), default="")
    except (CatalogError, ValueError):
        return ""
