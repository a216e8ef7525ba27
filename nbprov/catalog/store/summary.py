"""What the catalogue knows of accelerators, clouds and its own files.

The store's head answers it without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources.overrides import Applied
from nbprov.model.offers import Offer

Places = Mapping[str, Mapping[str, Sequence[str]]]
"""The zones of each region of each cloud."""


@dataclass(frozen=True, slots=True)
class AcceleratorInfo:
    """One kind of accelerator: its memory, the counts that are sold, and the clouds that sell it.

    Attributes
    ----------
    memory_gib
        Memory of one device, as most clouds report it; None if none does.
    counts
        How many are sold in one machine, ascending.
    clouds
        The clouds that sell it, sorted.
    """

    name: str
    maker: str
    memory_gib: float | None
    counts: tuple[float, ...]
    clouds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloudInfo:
    """The catalogue's content of one cloud, and the files that it comes from.

    Attributes
    ----------
    rows, gpu_rows
        Number of rows; each is a type in a place and market with a known price.
    sources
        (source, date, rows) of every source.
    oldest, newest
        Dates of the oldest and newest price, `YYYY-MM-DD`; empty where there is none.
    left_out
        How many lines or prices were left out, by reason.
    origin
        The files in use: `shipped`, `your copy`, `your last good copy` or `given folder`; empty
        for live offers alone.
    overrides
        The effect of each override file, in the order in which they were applied.
    error
        Why the preferred files could not be read; empty if they could.
    passed_over
        Why the user's copy is not used; empty if it is, or if there is none.
    """

    cloud: str
    rows: int
    gpu_rows: int
    regions: int
    zones: int
    sources: tuple[tuple[str, str, int], ...]
    oldest: str
    newest: str
    left_out: Mapping[str, int]
    origin: str = ""
    overrides: tuple[Applied, ...] = ()
    error: str = ""
    passed_over: str = ""


@dataclass(frozen=True, slots=True)
class CatalogProblem:
    """A fault in the price files that a person should know.

    Whatever the catalogue leaves out has a problem that says so.

    Attributes
    ----------
    file, line
        The place; line 0 is the whole file. The file is empty if `message` names it.
    """

    cloud: str
    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = (
            f"{self.file} line {self.line}: "
            if self.line
            else f"{self.file}: "
            if self.file
            else ""
        )
        return f"{self.cloud}: {where}{self.message}"


def accelerators(head: Mapping[str, Any], extra: Sequence[Offer]) -> dict[str, AcceleratorInfo]:
    """Return every accelerator by name, including those of live offers."""
    infos = {
        name: AcceleratorInfo(
            name, about["maker"], about["memory"], tuple(about["counts"]), tuple(about["clouds"])
        )
        for name, about in head["accelerators"].items()
    }
    for offer in extra:
        name = offer.accelerator
        if not name:
            continue
        known = infos.get(name, AcceleratorInfo(name, "", None, (), ()))
        infos[name] = AcceleratorInfo(
            name,
            known.maker,
            known.memory_gib if known.memory_gib is not None else offer.accelerator_memory_gib,
            tuple(sorted({*known.counts, offer.accelerator_count})),
            tuple(sorted({*known.clouds, offer.cloud})),
        )
    return infos


def places(head: Mapping[str, Any], extra: Sequence[Offer]) -> Places:
    """Return every place, including those of live offers."""
    stored: Places = head["places"]
    if not extra:
        return stored
    merged = {
        cloud: {region: list(zones) for region, zones in regions.items()}
        for cloud, regions in stored.items()
    }
    for offer in extra:
        zones = merged.setdefault(offer.cloud, {}).setdefault(offer.region, [])
        if offer.zone and offer.zone not in zones:
            zones.append(offer.zone)
    return merged


def cloud_info(head: Mapping[str, Any], extra: Sequence[Offer], cloud: str) -> CloudInfo:
    """Return what is known of a cloud.

    Raises
    ------
    CatalogError
        If there is neither a price of it nor a file.
    """
    known = places(head, extra)
    if cloud not in known and cloud not in head["clouds"]:
        raise CatalogError(
            f"the catalogue has no prices of {cloud!r}",
            hint=f"it has those of {', '.join(sorted(known))}",
            code="catalog.no-cloud",
        )
    nothing: dict[str, Any] = {
        "rows": 0,
        "gpu_rows": 0,
        "sources": [],
        "left_out": {},
        "origin": "",
        "errors": [],
        "passed_over": "",
        "overrides": [],
    }
    stored = head["clouds"].get(cloud, nothing)
    live = [offer for offer in set(extra) if offer.cloud == cloud]
    sources = {(source, as_of): n for source, as_of, n in stored["sources"]}
    for offer in live:
        sources[offer.source, offer.as_of] = sources.get((offer.source, offer.as_of), 0) + 1
    dates = sorted(as_of for _, as_of in sources if as_of)
    regions = known.get(cloud, {})
    return CloudInfo(
        cloud=cloud,
        rows=stored["rows"] + len(live),
        gpu_rows=stored["gpu_rows"] + sum(1 for offer in live if offer.accelerator),
        regions=len(regions),
        zones=sum(len(zones) for zones in regions.values()),
        sources=tuple((source, as_of, n) for (source, as_of), n in sorted(sources.items())),
        oldest=dates[0] if dates else "",
        newest=dates[-1] if dates else "",
        left_out=dict(stored["left_out"]),
        origin=stored["origin"],
        overrides=tuple(Applied.of_json(applied) for applied in stored["overrides"]),
        error="; ".join(message for _, message in stored["errors"]),
        passed_over=stored["passed_over"],
    )


def problems(head: Mapping[str, Any]) -> tuple[CatalogProblem, ...]:
    """Return the files that could not be read and the lines of overrides that were not used."""
    found = []
    for cloud, stored in head["clouds"].items():
        instead = (
            f"prices used instead: {stored['origin']}"
            if stored["origin"]
            else f"%nbprov catalog restore {cloud}"
        )
        found += [
            CatalogProblem(cloud, code, message, instead) for code, message in stored["errors"]
        ]
        for applied in stored["overrides"]:
            for bad in applied["bad"]:
                hint = "correct it, or delete it: the other lines hold"
                found.append(
                    CatalogProblem(
                        cloud,
                        "catalog.override",
                        bad["message"],
                        hint,
                        applied["file"],
                        bad["line"],
                    )
                )
            more = applied["bad_lines"] - len(applied["bad"])
            if more:
                found.append(
                    CatalogProblem(
                        cloud,
                        "catalog.override",
                        f"{more:,} more lines were not used",
                        "",
                        applied["file"],
                    )
                )
    return tuple(found)
