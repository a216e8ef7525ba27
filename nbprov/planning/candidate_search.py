"""From resolved requests to the ordered rows of a plan, in whole columns.

Requests that differ only in place and cap are answered by one look-up. A row is counted once: for the most preferred request it satisfies,
or, where none takes it, under the first rule that dropped it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from nbprov.market import Chances
from nbprov.model.money import format_usd
from nbprov.model.offers import Block, DropRule, RuleKind
from nbprov.model.spec import Compare, Expose, PlaceGlob, Policy, Quantity

from .filters.blocks import Blocker
from .filters.default_sizes import default_size
from .filters.features import Needs, lacks, needs_of
from .filters.machines import machine_rules
from .filters.place_masks import Placing
from .lookup.catalog_columns import present
from .lookup.enabled_clouds import NO_ADAPTER, EnabledCloud, why_disabled
from .lookup.name_resolution import Demand
from .lookup.scratch_array import Marks, lent
from .ordering import are_known, outlook, ranking

if TYPE_CHECKING:
    from .lookup.catalog_columns import Bools, Ints, Table

TOLERANCE = 1e-6
"""Figures are stored in single precision: what differs by less than this share is the same."""


TUNNELS = Expose()
"""No port is opened to the internet."""
ELSEWHERE = DropRule(RuleKind.PLACE, "elsewhere than asked")
NEEDLESS_GPU = DropRule(
    RuleKind.NEEDLESS_GPU,
    "machines with accelerators that nobody asked for, where the cloud has some without",
)


class Stage(StrEnum):
    """How far the offers of a request came before none was left."""

    HARDWARE = "hardware"
    PLACE = "place"
    CLOUD = "cloud"
    CAPABILITY = "capability"
    MACHINE = "machine"
    PRICE = "price"
    BLOCKED = "blocked"
    TAKEN = "taken"
    PLACED = "placed"


@dataclass(slots=True)
class Found:
    """What the search found.

    Attributes
    ----------
    rows, request_of
        In the plan's order.
    stages
        For each demand, where its offers ended.
    dropped
        Number of offers by rule.
    blocked
        Number of offers by block.
    idle
        Allowed patterns without an offer, of requests that have some elsewhere.
    unusable
        The cheapest row of each cloud that is not set up, among those that satisfy a request but for that, by cloud.
    sold_out
        How many of the rows are out of stock by their cloud's own word: the last ones.
    """

    rows: Ints
    request_of: Ints
    stages: list[Stage]
    dropped: dict[DropRule, int] = field(default_factory=dict)
    blocked: Sequence[tuple[Block, int]] = ()
    blocked_requests: frozenset[int] = frozenset()
    idle: Sequence[tuple[Demand, PlaceGlob]] = ()
    unusable: Mapping[str, int] = field(default_factory=dict)
    sold_out: int = 0


class Search:
    """One search: the inputs of a plan beside the table.

    Parameters
    ----------
    enabled, disabled
        Clouds that may be used, and why the others may not.
    count
        Nodes.
    demo
        Clouds that enter a plan only when named take part.
    expose
        Which ports are opened to the internet.
    prefer, chances
        What comes first inside a tier, and how likely an attempt is to be accepted.
    """

    def __init__(
        self,
        table: Table,
        enabled: Mapping[str, EnabledCloud],
        disabled: Mapping[str, str],
        *,
        count: int,
        demo: bool,
        expose: Expose = TUNNELS,
        prefer: Policy = Policy.CHEAPEST,
        chances: Chances,
    ) -> None:
        self._table = table
        self._enabled = enabled
        self._disabled = disabled
        self._count = count
        self._demo = demo
        self._expose = expose
        self._prefer = prefer
        self._chances = chances
        self._placing = Placing(table)
        self._hardware: dict[tuple[object, ...], Ints] = {}
        self._verdicts: dict[tuple[Needs, frozenset[str]], tuple[Ints, list[DropRule]]] = {}
        self._unusable: dict[str, int] = {}
        self._out: Ints = np.zeros(0, dtype=np.int64)

    def run(self, demands: Sequence[Demand], blocks: Sequence[Block]) -> Found:
        """Find, order and count the offers of all demands; `blocks` are the live ones."""
        with lent(self._table.size) as owner:
            return self._found(demands, blocks, owner)

    def _found(self, demands: Sequence[Demand], blocks: Sequence[Block], owner: Marks) -> Found:
        """`owner` takes the demand that each row goes to."""
        stages = [Stage.HARDWARE] * len(demands)
        refused: list[tuple[DropRule, Ints]] = []
        chunks: list[Ints] = []
        order = sorted(
            range(len(demands)),
            key=lambda i: (demands[i].request.tier, demands[i].request.index, i),
        )
        for i in order:
            demand = demands[i]
            if demand.unknown is not None:
                continue
            rows, stages[i] = self._narrow(self.hardware(demand), demand, refused)
            if len(rows):
                rows = rows[owner[rows] < 0]
                stages[i] = Stage.PLACED if len(rows) else Stage.TAKEN
                owner[rows] = i
                chunks.append(rows)
        rows = self._ordered(chunks, owner, demands)
        placed = {_hardware_key(d): d for d in demands if d.is_placed and d.unknown is None}
        refused += [(ELSEWHERE, self.hardware(demand)) for demand in placed.values()]
        dropped = self._dropped(refused, rows)
        rows, blocked, emptied = self._unblocked(rows, owner, blocks)
        idle = [
            pair
            for i, demand in enumerate(demands)
            if stages[i] is Stage.PLACED
            for pair in self._idle(demand)
        ]
        sold_out = int(np.isin(rows, self._out).sum()) if len(self._out) else 0
        return Found(
            rows, owner[rows], stages, dropped, blocked, emptied, idle, self._unusable, sold_out
        )

    def _idle(self, demand: Demand) -> Iterator[tuple[Demand, PlaceGlob]]:
        for rule in demand.rules:
            if len(rule.allow) > 1:
                rows = self.hardware(demand)
                yield from (
                    (demand, glob)
                    for glob in rule.allow
                    if not self._placing.under(rows, glob).any()
                )

    def hardware(self, demand: Demand) -> Ints:
        """The rows with the hardware and market of a demand, in price order, wherever they are."""
        key = _hardware_key(demand)
        known = self._hardware.get(key)
        if known is None:
            known = self._table.select(demand.query)
            if demand.plain:
                known = known[self._is_big_enough(known, demand)]
            self._hardware[key] = known
        return known

    def _is_big_enough(self, rows: Ints, demand: Demand) -> Bools:
        """The default rules: what is asked of vCPUs and memory, each cloud's default size where nothing is, and its general-purpose families."""
        table, request = self._table, demand.request
        clouds = table.names("cloud")
        families = {c: e.capabilities.default_families for c, e in self._enabled.items()}
        sizes = [default_size(c, families.get(c, ())) for c in clouds]
        cloud, vcpus, memory = (
            table.of("cloud", rows),
            table.of("vcpus", rows),
            table.of("memory_gib", rows),
        )
        if request.cpus is not None:
            fits = enough(vcpus, request.cpus, vcpus)
        elif request.memory is None:
            floor = np.array([s.vcpus if s else -1.0 for s in sizes])[cloud]
            fits = (floor < 0) | (vcpus >= floor * (1 - TOLERANCE))
        else:
            fits = np.ones(len(rows), dtype=bool)
        if request.memory is not None:
            fits &= enough(memory, request.memory, vcpus)
        else:
            ratio = np.array([s.gib_per_vcpu if s else -1.0 for s in sizes])[cloud]
            fits &= (ratio < 0) | (memory >= ratio * vcpus * (1 - TOLERANCE))
        for name, own in families.items():
            if own and name in clouds:
                fits &= (cloud != table.code("cloud", name)) | table.is_of_family(rows, own)
        return fits

    def _narrow(
        self, rows: Ints, demand: Demand, refused: list[tuple[DropRule, Ints]]
    ) -> tuple[Ints, Stage]:
        """Place, clouds and what they can do, cap: the rows left, and where they ended if none is."""
        if not len(rows):
            return rows, Stage.HARDWARE
        rows = self.in_place(rows, demand)
        if not len(rows):
            return rows, Stage.PLACE
        verdict, rules = self._verdict(demand)
        said = verdict[self._table.of("cloud", rows)]
        if said.any():
            against = present(said[said > 0])
            taken = [(rules[code - 1], rows[said == code]) for code in against]
            refused += taken
            self._note_unusable(demand, taken)
            last = (
                Stage.CAPABILITY
                if any(_is_capability(rules[code - 1]) for code in against)
                else Stage.CLOUD
            )
            rows = rows[said == 0]
            if not len(rows):
                return rows, last
        rows = self.capable(rows, demand, refused)
        if not len(rows):
            return rows, Stage.MACHINE
        if demand.plain:
            rows = self._without_needless_gpus(rows, refused)
        cap = demand.request.max_hourly
        if cap is not None:
            within = self._table.of("hourly", rows) <= cap
            if not within.all():
                refused.append(
                    (
                        DropRule(
                            RuleKind.PRICE, f"dearer than the cap of {format_usd(cap)} an hour"
                        ),
                        rows[~within],
                    )
                )
                rows = rows[within]
        return rows, Stage.PLACED if len(rows) else Stage.PRICE

    def _note_unusable(self, demand: Demand, taken: Sequence[tuple[DropRule, Ints]]) -> None:
        """Keep the cheapest row of each cloud that is not set up. Rows come in the order of price, so only the first of each is looked at."""
        table, cap = self._table, demand.request.max_hourly
        for rule, rows in taken:
            cloud = rule.subject
            if rule.kind is not RuleKind.DISABLED or (
                cap is not None and int(table.of("hourly", rows[:1])[0]) > cap
            ):
                continue
            known = self._unusable.get(cloud)
            both = rows[:1] if known is None else np.array([known, int(rows[0])])
            self._unusable[cloud] = int(both[table.rank(both).argmin()])

    def capable(self, rows: Ints, demand: Demand, refused: list[tuple[DropRule, Ints]]) -> Ints:
        """The rows whose machines can honour what only some machines of their cloud can; the others are added to `refused`."""
        all_kept = np.ones(len(rows), dtype=bool)
        for rule, kept in machine_rules(self._table, rows, demand.request):
            if not kept.all():
                refused.append((rule, rows[all_kept & ~kept]))
                all_kept &= kept
        return rows if all_kept.all() else np.asarray(rows[all_kept])

    def allowed(self, rows: Ints, demand: Demand) -> Ints:
        """The rows of clouds that may be used for a demand."""
        verdict, _ = self._verdict(demand)
        return np.asarray(rows[verdict[self._table.of("cloud", rows)] == 0])

    def reasons(self, rows: Ints, demand: Demand) -> list[str]:
        """Why the clouds of these rows may not be used for a demand, each once."""
        verdict, rules = self._verdict(demand)
        said = present(verdict[self._table.of("cloud", rows)])
        return [rules[code - 1].words for code in said if code]

    def _without_needless_gpus(self, rows: Ints, refused: list[tuple[DropRule, Ints]]) -> Ints:
        """Where a cloud has machines without accelerators that will do, those with some are left out, unless they cost less than all of these."""
        table = self._table
        gpus = table.of("accelerator_count", rows) > 0
        if not gpus.any():
            return rows
        clouds, hourly = table.of("cloud", rows), table.of("hourly", rows)
        cheapest = np.full(len(table.names("cloud")), np.iinfo(np.int64).max)
        np.minimum.at(cheapest, clouds[~gpus], hourly[~gpus])
        needless = gpus & (hourly >= cheapest[clouds])
        if needless.any():
            refused.append((NEEDLESS_GPU, rows[needless]))
        return np.asarray(rows[~needless])

    def in_place(self, rows: Ints, demand: Demand) -> Ints:
        """The rows in the place of a demand."""
        for column, name in (
            ("cloud", demand.cloud),
            ("region", demand.region),
            ("zone", demand.zone),
        ):
            if name:
                rows = rows[self._table.of(column, rows) == self._table.code(column, name)]
        return (
            rows[self._placing.allowed(rows, demand.rules)] if demand.rules and len(rows) else rows
        )

    def _verdict(self, demand: Demand) -> tuple[Ints, list[DropRule]]:
        """By cloud code: 0 where offers may be taken for a demand, else the number of the rule against it, from 1."""
        needs, named = needs_of(demand.request, self._count, self._expose), demand.named
        known = self._verdicts.get((needs, named))
        if known is not None:
            return known
        rules: list[DropRule] = []
        codes = []
        for name in self._table.names("cloud"):
            cloud = self._enabled.get(name)
            rule: DropRule | None = None
            if cloud is None:
                rule = DropRule(
                    RuleKind.DISABLED,
                    why_disabled(name, self._disabled),
                    name,
                    self._disabled.get(name) or NO_ADAPTER,
                )
            elif cloud.capabilities.named_only and name not in named and not self._demo:
                rule = DropRule(
                    RuleKind.UNNAMED, f"{name} takes part only where a spec names it", name
                )
            else:
                rule = lacks(name, cloud.capabilities, needs)
            if rule is not None:
                rules.append(rule)
            codes.append(0 if rule is None else len(rules))
        made = np.array(codes, dtype=np.int32), rules
        self._verdicts[needs, named] = made
        return made

    def _ordered(self, chunks: Sequence[Ints], owner: Marks, demands: Sequence[Demand]) -> Ints:
        """All rows in the plan's order: what is out of stock last, tier, what is preferred, request, then the US first, then the order of names.

        Out of stock comes before the tiers: a wish that its cloud cannot serve now would only be asked for to be refused.
        """
        if not chunks:
            return np.zeros(0, dtype=np.int64)
        if (
            len(chunks) == 1
            and self._prefer is Policy.CHEAPEST
            and not are_known(self._table, chunks[0], self._chances).any()
        ):
            return self._table.in_rank_order(chunks[0])
        rows = np.concatenate(chunks)
        owners = owner[rows]
        tiers = _dense([d.request.tier for d in demands])[owners]
        indices = _dense([d.request.index for d in demands])[owners]
        table = self._table
        seen = outlook(table, rows, self._chances)
        self._out = rows[seen.is_out]
        wanted = ranking(table, rows, self._prefer, self._chances, seen)
        order = np.lexsort((table.rank(rows), indices, *reversed(wanted), tiers, seen.is_out))
        return rows[order]

    def _dropped(
        self, refused: Sequence[tuple[DropRule, Ints]], placed: Ints
    ) -> dict[DropRule, int]:
        if not refused:
            return {}
        counts: dict[DropRule, int] = {}
        with lent(self._table.size) as seen:
            seen[placed] = 1
            for rule, rows in refused:
                new = rows[seen[rows] < 0]
                seen[new] = 1
                if len(new):
                    counts[rule] = counts.get(rule, 0) + len(new)
        return counts

    def _unblocked(
        self, rows: Ints, owner: Marks, blocks: Sequence[Block]
    ) -> tuple[Ints, Sequence[tuple[Block, int]], frozenset[int]]:
        """The rows that no block matches, how many each block took, and the requests that lost all they had."""
        if not blocks or not len(rows):
            return rows, (), frozenset()
        taken = Blocker(self._table, self._enabled, self._count).taken(rows, blocks)
        kept = rows[taken < 0]
        if len(kept) == len(rows):
            return rows, (), frozenset()
        counts = np.bincount(taken[taken >= 0], minlength=len(blocks))
        blocked = [
            (blocks[number], int(counts[number])) for number in np.flatnonzero(counts).tolist()
        ]
        emptied = frozenset(present(owner[rows])) - frozenset(present(owner[kept]))
        return kept, blocked, emptied


def enough(actual: Ints, asked: Quantity, vcpus: Ints) -> Bools:
    """Which figures satisfy a demand; one that is not known does not."""
    if asked.compare is Compare.EXACTLY:
        return np.asarray(np.abs(actual - asked.value) <= asked.value * TOLERANCE)
    floor = asked.value * vcpus if asked.compare is Compare.PER_VCPU else asked.value
    return np.asarray(actual >= floor * (1 - TOLERANCE))


def _hardware_key(demand: Demand) -> tuple[object, ...]:
    """What two demands share that one look-up answers."""
    return (
        (demand.query, demand.request.cpus, demand.request.memory)
        if demand.plain
        else (demand.query,)
    )


def _is_capability(rule: DropRule) -> bool:
    return rule.kind not in (RuleKind.DISABLED, RuleKind.UNNAMED)


def _dense(values: Sequence[int]) -> Ints:
    """The same order in small numbers."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([places[v] for v in values], dtype=np.int32)
