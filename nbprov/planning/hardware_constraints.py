"""Constraints on accelerators and instance types, and what could be asked instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.catalog.errors import AmbiguousName, UnknownName
from nbprov.model.offers import Offer
from nbprov.model.resources import Accelerator, Compare, Quantity, Request

from .spec_changes import ChangeBuilder, SpecChange

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

NEAR_COUNTS = 2
"""How many counts of a GPU are tried on either side of the requested one."""


class HardwareConstraints:
    """The accelerators and instance types that the requests of one spec name."""

    def __init__(
        self, requests: Sequence[Request], catalog: Catalog, changes: ChangeBuilder
    ) -> None:
        self._requests = requests
        self._catalog = catalog
        self._changes = changes

    def accelerators(self) -> Iterator[SpecChange]:
        kinds = list(
            dict.fromkeys(r.accelerator for r in self._requests if r.accelerator is not None)
        )
        if not kinds:
            return
        origin = self._changes.origin(lambda r: r.accelerator is not None)
        if len(kinds) == 1 and kinds[0].memory_gib is None:
            [kind] = kinds
            name = self._known_name(kind)
            for count in _near(self._catalog.counts(name), kind.count):
                other = Accelerator(name, count)
                yield self._changes.changed(
                    "accelerators",
                    f"accelerators: {other}",
                    self._with({kind: other}),
                    origin,
                    is_yaml=True,
                )
        wider = {kind: found for kind in kinds if (found := self._as_memory(kind)) is not None}
        if wider:
            texts = list(dict.fromkeys(str(wider.get(kind, kind)) for kind in kinds))
            preferred = len({r.tier for r in self._requests}) > 1
            several = f"[{', '.join(texts)}]" if preferred else f"{{{', '.join(texts)}}}"
            is_yaml = len(kinds) == 1 or len({r.origin.path for r in self._requests}) == 1
            words = (
                f"accelerators: {several if len(texts) > 1 else texts[0]}"
                if is_yaml
                else f"accelerators by memory: {', '.join(texts)}"
            )
            yield self._changes.changed(
                "accelerators", words, self._with(wider), origin, is_yaml=is_yaml
            )

    def _with(self, other: Mapping[Accelerator, Accelerator]) -> list[Request]:
        return [
            r
            if r.accelerator is None
            else replace(r, accelerator=other.get(r.accelerator, r.accelerator))
            for r in self._requests
        ]

    def _as_memory(self, kind: Accelerator) -> Accelerator | None:
        """Any accelerator with at least the same device memory.

        None if its memory is not known, or if the request asks for memory already.
        """
        from nbprov.catalog.vocabulary.device_memory import nominal_gb

        if kind.memory_gib is not None:
            return None if kind.memory_at_least else replace(kind, memory_at_least=True)
        name = self._known_name(kind)
        if name not in self._catalog.accelerators():
            return None
        memory = nominal_gb(self._catalog.accelerator_info(name).memory_gib)
        return (
            None
            if memory is None
            else Accelerator("", kind.count, memory_gib=memory, memory_at_least=True)
        )

    def _known_name(self, kind: Accelerator) -> str:
        """The catalogue's name of an accelerator; the written name if it is not known."""
        try:
            return self._catalog.resolve_accelerator(kind.name)
        except (UnknownName, AmbiguousName):
            return kind.name

    def instance_type(self) -> Iterator[SpecChange]:
        """Any machine with the hardware of the named type."""
        named = [r for r in self._requests if r.instance_type]
        if not named:
            return
        wider = [self._any_type(r) for r in self._requests]
        if wider == list(self._requests):
            return
        said = list(
            dict.fromkeys(
                _hardware(after)
                for before, after in zip(self._requests, wider, strict=True)
                if before != after
            )
        )
        words = f"{' or '.join(said)} instead of instance_type"
        yield self._changes.changed("instance_type", words, wider, named[0].origin)

    def _any_type(self, request: Request) -> Request:
        offer = self._example(request)
        if offer is None:
            return request
        if request.accelerator is not None:
            return replace(request, instance_type="")
        if offer.accelerator:
            return replace(
                request,
                instance_type="",
                accelerator=Accelerator(offer.accelerator, offer.accelerator_count),
            )
        cpus = Quantity(Compare.AT_LEAST, offer.vcpus) if offer.vcpus else None
        memory = Quantity(Compare.AT_LEAST, offer.memory_gib) if offer.memory_gib else None
        return replace(request, instance_type="", cpus=cpus, memory=memory)

    def _example(self, request: Request) -> Offer | None:
        """One offer of the type that a request names; None if it names no known one."""
        from nbprov.catalog.query import Query

        if not request.instance_type:
            return None
        accelerator = "" if request.accelerator is None else self._known_name(request.accelerator)
        for query in (
            Query(instance_type=request.instance_type),
            Query(instance_type=request.instance_type, accelerator=accelerator),
        ):
            offers = self._catalog.offers(replace(query, cloud=request.cloud), 1)
            if offers:
                return offers[0]
        return None


def _near(sold: Sequence[float], asked: float) -> list[float]:
    below = [count for count in sold if count < asked - 0.01][-NEAR_COUNTS:]
    above = [count for count in sold if count > asked + 0.01][:NEAR_COUNTS]
    return below + above


def _hardware(request: Request) -> str:
    fields = (
        ("accelerators", request.accelerator),
        ("cpus", request.cpus),
        ("memory", request.memory),
    )
    return ", ".join(f"{name}: {asked}" for name, asked in fields if asked is not None)
