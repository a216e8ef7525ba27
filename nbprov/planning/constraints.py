"""The constraints of a spec one by one, each with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nbprov.catalog.errors import AmbiguousName, UnknownName
from nbprov.model.clock import Instant, short_duration
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.offers import Block, Offer
from nbprov.model.places import Market
from nbprov.model.spec import Accelerator, Compare, Expose, Origin, Quantity, Request, Spec

from .lookup.enabled_clouds import EnabledCloud

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

RESOURCES = Origin("resources")
CENT = MICROS_PER_USD // 100
NEAR_COUNTS = 2
"""Counts of a GPU to try on either side of the asked one."""
CAPS = ("max_price", "max_hourly_cost")
OLD_PLACES = ("cloud", "region", "zone")


@dataclass(frozen=True, slots=True)
class Change:
    """A constraint's name, what to write instead, and the spec without it; other inputs of the plan where these change.

    Attributes
    ----------
    words
        YAML that takes the place of what the field says now, or what to do.
    is_yaml
        Whether `words` is YAML.
    """

    field: str
    words: str
    spec: Spec
    is_yaml: bool = False
    origin: Origin = RESOURCES
    enabled: Mapping[str, EnabledCloud] | None = None
    unblocked: bool = False


class Constraints:
    """The constraints of one spec.

    Parameters
    ----------
    off
        Clouds that could be set up.
    """

    def __init__(self, spec: Spec, catalog: Catalog) -> None:
        self._spec = spec
        self._requests = spec.requests
        self._catalog = catalog

    def changes(
        self,
        live: Sequence[Block],
        now: Instant,
        enabled: Mapping[str, EnabledCloud],
        off: Mapping[str, EnabledCloud],
    ) -> Iterator[Change]:
        """Each constraint relaxed alone; a cap on the price is dropped here, and `raised_cap` says what would do."""
        yield from self._places()
        yield from self._sizes()
        yield from self._accelerators()
        yield from self._instance_type()
        yield from self._rest()
        spec = self._spec
        if spec.num_nodes > 1:
            yield Change(
                "num_nodes",
                "num_nodes: 1",
                replace(spec, num_nodes=1),
                is_yaml=True,
                origin=Origin("num_nodes"),
            )
        if (spec.expose.everything or spec.expose.public) and any(r.ports for r in self._requests):
            yield Change(
                "expose",
                "expose: tunnel",
                replace(spec, expose=Expose()),
                is_yaml=True,
                origin=Origin("expose"),
            )
        if live:
            first, last = (
                short_duration(end(block.expires for block in live) - now) for end in (min, max)
            )
            words = (
                f"waiting {first} for the block to end"
                if len(live) == 1
                else f"waiting for the blocks to end, {first} to {last} from now"
            )
            yield Change("blocks", words, spec, unblocked=True, origin=Origin(""))
        for name, cloud in off.items():
            yield Change(
                name,
                f"setting up {name}",
                spec,
                enabled={**enabled, name: cloud},
                origin=Origin(""),
            )

    def raised_cap(self, cheapest: Micros) -> Change | None:
        """The lowest cap in whole cents that takes an offer of this price; None where the caps differ, so that none stands for all."""
        caps = {r.max_hourly for r in self._requests if r.max_hourly is not None}
        if len(caps) != 1:
            return None
        cap = -(-cheapest // CENT) * CENT
        written = [name for name in CAPS if re.search(rf"\b{name}\b", self._spec.source)] or [
            "max_price"
        ]
        amount = f"{cap / MICROS_PER_USD:.2f}"
        words = (
            f"{written[0]}: {amount}"
            if len(written) == 1
            else f"raising {' and '.join(written)} to {amount}"
        )
        requests = [
            r if r.max_hourly is None else replace(r, max_hourly=cap) for r in self._requests
        ]
        return self._changed(
            "max_price",
            words,
            requests,
            self._origin(lambda r: r.max_hourly is not None),
            is_yaml=len(written) == 1,
        )

    # ------------------------------------------------------------ one field after the other

    def _places(self) -> Iterator[Change]:
        yield from self._without_place("zone", lambda r: bool(r.zone), zone="")
        yield from self._without_place(
            "region", lambda r: bool(r.region and r.cloud), region="", zone=""
        )
        yield from self._without(
            "places", "leaving out allow and deny", lambda r: bool(r.places), places=()
        )
        anywhere = {"cloud": "", "region": "", "zone": ""}
        yield from self._without(
            "infra",
            "leaving out the place",
            lambda r: bool(r.cloud or r.region or r.zone),
            **anywhere,
        )

    def _place_words(self, field: str) -> tuple[bool, str]:
        """Whether the change can be written as YAML, and its words.

        `infra: aws` where the places were written as `infra` in one block; else which part to leave out.
        """
        in_one_block = len({r.origin.path for r in self._requests}) == 1
        by_infra = in_one_block and not any(
            re.search(rf"\b{name}\s*:", self._spec.source) for name in OLD_PLACES
        )
        if (
            not by_infra
            or not re.search(r"\binfra\s*:", self._spec.source)
            or any(r.places for r in self._requests)
        ):
            return False, f"leaving out {field}"
        kept = [(r.cloud, r.region if field == "zone" else "") for r in self._requests]
        places = list(
            dict.fromkeys(
                "/".join(part for part in (cloud or "*", region) if part) for cloud, region in kept
            )
        )
        texts = [f'"{place}"' if place.startswith("*") else place for place in places]
        return True, f"infra: {texts[0]}" if len(texts) == 1 else f"infra: [{', '.join(texts)}]"

    def _sizes(self) -> Iterator[Change]:
        for field, other in (("cpus", "memory"), ("memory", "cpus")):
            written = [
                asked
                for r in self._requests
                if (asked := getattr(r, field)) is not None and asked.compare is Compare.EXACTLY
            ]
            if written:
                same = len(set(written)) == 1 and all(
                    getattr(r, field) in (None, written[0]) for r in self._requests
                )
                words = f"{field}: {written[0]}+" if same else f"a + behind each exact {field}"
                requests = [_at_least(r, field) for r in self._requests]
                yield self._changed(
                    field, words, requests, self._origin(partial(_says, field)), is_yaml=same
                )

            def could_go(request: Request, field: str = field, other: str = other) -> bool:
                # A request for nothing but vCPUs would lose its meaning, not a constraint.
                beside = request.accelerator is not None or getattr(request, other) is not None
                return getattr(request, field) is not None and beside and not request.instance_type

            yield from self._without(field, f"leaving out {field}", could_go, **{field: None})

    def _accelerators(self) -> Iterator[Change]:
        kinds = list(
            dict.fromkeys(r.accelerator for r in self._requests if r.accelerator is not None)
        )
        if not kinds:
            return
        origin = self._origin(lambda r: r.accelerator is not None)
        if len(kinds) == 1 and kinds[0].memory_gib is None:
            [kind] = kinds
            name = self._known_name(kind)
            for count in _near(self._catalog.counts(name), kind.count):
                other = Accelerator(name, count)
                yield self._changed(
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
            yield self._changed("accelerators", words, self._with(wider), origin, is_yaml=is_yaml)

    def _with(self, other: Mapping[Accelerator, Accelerator]) -> list[Request]:
        return [
            r
            if r.accelerator is None
            else replace(r, accelerator=other.get(r.accelerator, r.accelerator))
            for r in self._requests
        ]

    def _as_memory(self, kind: Accelerator) -> Accelerator | None:
        """Any accelerator with at least the same device memory; None where that is not known or asked already."""
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
        """The catalogue's name of an accelerator; what was written where it is not known."""
        try:
            return self._catalog.resolve_accelerator(kind.name)
        except (UnknownName, AmbiguousName):
            return kind.name

    def _instance_type(self) -> Iterator[Change]:
        """Any machine with what the named type has."""
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
        yield self._changed("instance_type", words, wider, named[0].origin)

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
        """One offer of the type a request names; None where it names none that is known."""
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

    def _rest(self) -> Iterator[Change]:
        markets = {r.market for r in self._requests}
        if len(markets) == 1:
            [market] = markets
            other = Market.ON_DEMAND if market is Market.SPOT else Market.SPOT
            both = [*self._requests, *(replace(r, market=other) for r in self._requests)]
            yield self._changed(
                "use_spot", "use_spot: prefer", both, self._requests[0].origin, is_yaml=True
            )
        yield from self._without(
            "max_price", "no cap on the price", lambda r: r.max_hourly is not None, max_hourly=None
        )
        for field in ("disk_tier", "network_tier"):
            yield from self._without(
                field, f"leaving out {field}", partial(_has, field), **{field: ""}
            )
        yield from self._without(
            "image_id", "leaving out image_id", lambda r: r.image is not None, image=None
        )
        yield from self._without(
            "local_disk",
            "leaving out local_disk",
            lambda r: r.local_disk is not None,
            local_disk=None,
        )
        yield from self._without(
            "accelerator_args",
            "leaving out accelerator_args",
            lambda r: bool(r.accelerator_args),
            accelerator_args=(),
        )

    # ------------------------------------------------------------ making a change

    def _without(
        self, field: str, words: str, has: Callable[[Request], bool], **changes: Any
    ) -> Iterator[Change]:
        """The change of a plain field in every request that has it; nothing where none has."""
        if any(map(has, self._requests)):
            yield self._changed(field, words, self._replaced(has, changes), self._origin(has))

    def _without_place(
        self, field: str, has: Callable[[Request], bool], **changes: Any
    ) -> Iterator[Change]:
        """The same for a part of a place."""
        if any(map(has, self._requests)):
            is_yaml, words = self._place_words(field)
            yield self._changed(
                field, words, self._replaced(has, changes), self._origin(has), is_yaml=is_yaml
            )

    def _replaced(self, has: Callable[[Request], bool], changes: dict[str, Any]) -> list[Request]:
        return [replace(r, **changes) if has(r) else r for r in self._requests]

    def _changed(
        self,
        field: str,
        words: str,
        requests: Sequence[Request],
        origin: Origin,
        *,
        is_yaml: bool = False,
    ) -> Change:
        return Change(
            field,
            words,
            replace(self._spec, requests=_renumbered(requests)),
            is_yaml=is_yaml,
            origin=origin,
        )

    def _origin(self, has: Callable[[Request], bool]) -> Origin:
        return next((r.origin for r in self._requests if has(r)), RESOURCES)


def _renumbered(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Equal requests once, numbered anew."""
    distinct = {replace(r, index=0, origin=Origin("")): r for r in reversed(requests)}
    return tuple(replace(r, index=i) for i, r in enumerate(reversed(distinct.values())))


def _says(field: str, request: Request) -> bool:
    return getattr(request, field) is not None


def _has(field: str, request: Request) -> bool:
    return bool(getattr(request, field))


def _at_least(request: Request, field: str) -> Request:
    asked: Quantity | None = getattr(request, field)
    if asked is None or asked.compare is not Compare.EXACTLY:
        return request
    at_least = Quantity(Compare.AT_LEAST, asked.value)
    return replace(request, cpus=at_least) if field == "cpus" else replace(request, memory=at_least)


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
