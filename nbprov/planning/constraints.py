"""The constraints of a spec one by one, each with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, short_duration
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.places import Market
from nbprov.model.remarks import Origin
from nbprov.model.resources import Compare, Quantity, Request
from nbprov.model.spec import ExposedPorts, Spec

from .hardware_constraints import HardwareConstraints
from .lookup.enabled_clouds import EnabledCloud
from .spec_changes import ChangeBuilder, SpecChange

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

CENT = MICROS_PER_USD // 100
CAPS = ("max_price", "max_hourly_cost")
OLD_PLACES = ("cloud", "region", "zone")


class Constraints:
    """The constraints of one spec."""

    def __init__(self, spec: Spec, catalog: Catalog) -> None:
        self._spec = spec
        self._requests = spec.requests
        self._changes = ChangeBuilder(spec)
        self._hardware = HardwareConstraints(spec.requests, catalog, self._changes)

    def changes(
        self,
        live: Sequence[Block],
        now: Instant,
        enabled: Mapping[str, EnabledCloud],
        off: Mapping[str, EnabledCloud],
    ) -> Iterator[SpecChange]:
        """Each constraint relaxed alone, `off` being the clouds that could be set up.

        A price cap is dropped here; `raised_cap` says which cap would do.
        """
        yield from self._places()
        yield from self._sizes()
        yield from self._hardware.accelerators()
        yield from self._hardware.instance_type()
        yield from self._rest()
        spec = self._spec
        if spec.num_nodes > 1:
            yield SpecChange(
                "num_nodes",
                "num_nodes: 1",
                replace(spec, num_nodes=1),
                is_yaml=True,
                origin=Origin("num_nodes"),
            )
        if (spec.expose.everything or spec.expose.public) and any(r.ports for r in self._requests):
            yield SpecChange(
                "expose",
                "expose: tunnel",
                replace(spec, expose=ExposedPorts()),
                is_yaml=True,
                origin=Origin("expose"),
            )
        if live:
            first, last = (
                short_duration(end(block.expires for block in live) - now) for end in (min, max)
            )
            words = (
                f"waiting {first} for the {'block' if len(live) == 1 else 'blocks'} to end"
                if first == last
                else f"waiting for the blocks to end, {first} to {last} from now"
            )
            yield SpecChange("blocks", words, spec, unblocked=True, origin=Origin(""))
        for name, cloud in off.items():
            yield SpecChange(
                name,
                f"setting up {name}",
                spec,
                enabled={**enabled, name: cloud},
                origin=Origin(""),
            )

    def raised_cap(self, cheapest: Micros) -> SpecChange | None:
        """The lowest cap in whole cents that permits an offer of this price.

        None if the caps of the requests differ, because no single one would replace them.
        """
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
        return self._changes.changed(
            "max_price",
            words,
            requests,
            self._changes.origin(lambda r: r.max_hourly is not None),
            is_yaml=len(written) == 1,
        )

    def _places(self) -> Iterator[SpecChange]:
        yield from self._without_place("zone", lambda r: bool(r.zone), zone="")
        yield from self._without_place(
            "region", lambda r: bool(r.region and r.cloud), region="", zone=""
        )
        yield from self._changes.without(
            "places", "leaving out allow and deny", lambda r: bool(r.places), places=()
        )
        anywhere = {"cloud": "", "region": "", "zone": ""}
        yield from self._changes.without(
            "infra",
            "leaving out the place",
            lambda r: bool(r.cloud or r.region or r.zone),
            **anywhere,
        )

    def _without_place(
        self, field: str, has: Callable[[Request], bool], **changes: str
    ) -> Iterator[SpecChange]:
        """The change without the zone or region; nothing if no request has it."""
        if any(map(has, self._requests)):
            is_yaml, words = self._place_words(field)
            yield self._changes.changed(
                field,
                words,
                self._changes.replaced(has, **changes),
                self._changes.origin(has),
                is_yaml=is_yaml,
            )

    def _place_words(self, field: str) -> tuple[bool, str]:
        """What to write without the zone or region, and first whether that is YAML.

        `infra: aws` if all places stand as `infra` in one block; else which field to leave out.
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

    def _sizes(self) -> Iterator[SpecChange]:
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
                yield self._changes.changed(
                    field,
                    words,
                    requests,
                    self._changes.origin(partial(_says, field)),
                    is_yaml=same,
                )

            def could_go(request: Request, field: str = field, other: str = other) -> bool:
                # A request for vCPUs alone would lose its meaning, not a constraint.
                beside = request.accelerator is not None or getattr(request, other) is not None
                return getattr(request, field) is not None and beside and not request.instance_type

            yield from self._changes.without(
                field, f"leaving out {field}", could_go, **{field: None}
            )

    def _rest(self) -> Iterator[SpecChange]:
        markets = {r.market for r in self._requests}
        if len(markets) == 1:
            [market] = markets
            other = Market.ON_DEMAND if market is Market.SPOT else Market.SPOT
            both = [*self._requests, *(replace(r, market=other) for r in self._requests)]
            yield self._changes.changed(
                "use_spot", "use_spot: prefer", both, self._requests[0].origin, is_yaml=True
            )
        yield from self._changes.without(
            "max_price", "no cap on the price", lambda r: r.max_hourly is not None, max_hourly=None
        )
        for field in ("disk_tier", "network_tier"):
            yield from self._changes.without(
                field, f"leaving out {field}", partial(_has, field), **{field: ""}
            )
        yield from self._changes.without(
            "image_id", "leaving out image_id", lambda r: r.image is not None, image=None
        )
        yield from self._changes.without(
            "local_disk",
            "leaving out local_disk",
            lambda r: r.local_disk is not None,
            local_disk=None,
        )
        yield from self._changes.without(
            "accelerator_args",
            "leaving out accelerator_args",
            lambda r: bool(r.accelerator_args),
            accelerator_args=(),
        )


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
