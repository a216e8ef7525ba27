"""From resolved requests to the ordered rows of a plan, in whole columns.

Requests that differ only in place and cap are answered by one look-up. A row is counted once: for the most preferred request it satisfies,
or, where none takes it, under the first rule that dropped it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.money import format_usd
from nbprov.model.offers import Block
from nbprov.model.places import Market
from nbprov.model.spec import Compare, Quantity

from .enabled import EnabledCloud, why_disabled
from .resolve import Demand
from .sizes import default_size
from .table import present

if TYPE_CHECKING:
    from .table import Bools, Ints, Table

TOLERANCE = 1e-6
"""Figures are stored in single precision: what differs by less than this share is the same."""


class Stage(StrEnum):
    """How far the offers of a request came before none was left."""

    HARDWARE = "hardware"
    PLACE = "place"
    CLOUD = "cloud"
    CAPABILITY = "capability"
    PRICE = "price"
    BLOCKED = "blocked"
    TAKEN = "taken"
    PLACED = "placed"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that drops offers: its name and its words."""

    name: str
    words: str


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
    """

    rows: Ints
    request_of: Ints
    stages: list[Stage]
    dropped: dict[Rule, int] = field(default_factory=dict)
    blocked: dict[Block, int] = field(default_factory=dict)
    blocked_requests: frozenset[int] = frozenset()


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
    """

    def __init__(
        self,
        table: Table,
        enabled: Mapping[str, EnabledCloud],
        disabled: Mapping[str, str],
        *,
        count: int,
        demo: bool,
    ) -> None:
        self._table = table
        self._enabled = enabled
        self._disabled = disabled
        self._count = count
        self._demo = demo
        self._verdicts: dict[tuple[Market, bool], tuple[Ints, list[Rule | None]]] = {}

    def run(self, demands: Sequence[Demand], blocks: Sequence[Block]) -> Found:
        """Find, order and count the offers of all demands; `blocks` are the live ones."""
        table = self._table
        stages = [Stage.HARDWARE] * len(demands)
        owner = np.full(table.size, -1, dtype=np.int32)
        groups: dict[tuple[object, ...], Ints] = {}
        refused: list[tuple[Rule, Ints]] = []
        chunks: list[Ints] = []
        order = sorted(range(len(demands)), key=lambda i: (demands[i].request.tier, demands[i].request.index, i))
        for i in order:
            demand = demands[i]
            if demand.unknown is not None:
                continue
            key = (demand.query, *((demand.request.cpus, demand.request.memory) if demand.plain else ()))
            if key not in groups:
                groups[key] = self.hardware(demand)
            rows, stages[i] = self._narrow(groups[key], demand, refused)
            if len(rows):
                rows = rows[owner[rows] < 0]
                stages[i] = Stage.PLACED if len(rows) else Stage.TAKEN
                owner[rows] = i
                chunks.append(rows)
        rows = self._ordered(chunks, owner, demands)
        dropped = self._dropped(refused, rows)
        rows, blocked, emptied = self._unblocked(rows, owner, blocks)
        return Found(rows, owner[rows], stages, dropped, blocked, emptied)

    def hardware(self, demand: Demand) -> Ints:
        """The rows with the hardware and market of a demand, in price order, wherever they are."""
        rows = self._table.select(demand.query)
        return rows if not demand.plain else rows[self._is_big_enough(rows, demand)]

    def _is_big_enough(self, rows: Ints, demand: Demand) -> Bools:
        """The default rules: what is asked of vCPUs and memory, each cloud's default size where nothing is, and its general-purpose families."""
        table, request = self._table, demand.request
        clouds = table.names("cloud")
        families = {c: e.capabilities.default_families for c, e in self._enabled.items()}
        sizes = [default_size(c, families.get(c, ())) for c in clouds]
        cloud, vcpus, memory = table.of("cloud", rows), table.of("vcpus", rows), table.of("memory_gib", rows)
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

    def _narrow(self, rows: Ints, demand: Demand, refused: list[tuple[Rule, Ints]]) -> tuple[Ints, Stage]:
        """Place, clouds and what they can do, cap: the rows left, and where they ended if none is."""
        if not len(rows):
            return rows, Stage.HARDWARE
        rows = self.in_place(rows, demand)
        if not len(rows):
            return rows, Stage.PLACE
        verdict, rules = self._verdict(demand.request.market, bool(demand.cloud))
        said = verdict[self._table.of("cloud", rows)]
        if said.any():
            for code in present(said[said > 0]):
                rule = rules[code]
                if rule is not None:
                    refused.append((rule, rows[said == code]))
            last = Stage.CAPABILITY if any(_is_capability(rules[c]) for c in present(said)) else Stage.CLOUD
            rows = rows[said == 0]
            if not len(rows):
                return rows, last
        cap = demand.request.max_hourly
        if cap is not None:
            within = self._table.of("hourly", rows) <= cap
            if not within.all():
                refused.append((Rule("price", f"dearer than the cap of {format_usd(cap)} an hour"), rows[~within]))
                rows = rows[within]
        return rows, Stage.PLACED if len(rows) else Stage.PRICE

    def allowed(self, rows: Ints, demand: Demand) -> Ints:
        """The rows of clouds that may be used for a demand."""
        verdict, _ = self._verdict(demand.request.market, bool(demand.cloud))
        return np.asarray(rows[verdict[self._table.of("cloud", rows)] == 0])

    def reasons(self, rows: Ints, demand: Demand) -> list[str]:
        """Why the clouds of these rows may not be used for a demand, each once."""
        verdict, rules = self._verdict(demand.request.market, bool(demand.cloud))
        said = present(verdict[self._table.of("cloud", rows)])
        return [rule.words for code in said if (rule := rules[code]) is not None]

    def in_place(self, rows: Ints, demand: Demand) -> Ints:
        """The rows in the place of a demand."""
        for column, name in (("cloud", demand.cloud), ("region", demand.region), ("zone", demand.zone)):
            if name:
                rows = rows[self._table.of(column, rows) == self._table.code(column, name)]
        return rows

    def _verdict(self, market: Market, named: bool) -> tuple[Ints, list[Rule | None]]:
        """By cloud code: 0 where offers of this market may be taken, else a place in the list of rules; None there drops without a word."""
        known = self._verdicts.get((market, named))
        if known is not None:
            return known
        rules: list[Rule | None] = [None, None]
        codes = []
        for name in self._table.names("cloud"):
            cloud = self._enabled.get(name)
            rule: Rule | None = None
            if cloud is None:
                rule = Rule(f"disabled:{name}", why_disabled(name, self._disabled))
            elif cloud.capabilities.named_only and not named and not self._demo:
                codes.append(1)
                continue
            elif self._count > 1 and not cloud.capabilities.multi_node:
                rule = Rule(f"multi-node:{name}", f"{name} cannot make a cluster of several nodes")
            elif market is Market.SPOT and not cloud.capabilities.spot:
                rule = Rule(f"spot:{name}", f"{name} cannot be asked for spot machines")
            if rule is None:
                codes.append(0)
            else:
                codes.append(len(rules))
                rules.append(rule)
        made = np.array(codes, dtype=np.int32), rules
        self._verdicts[market, named] = made
        return made

    def _ordered(self, chunks: Sequence[Ints], owner: Ints, demands: Sequence[Demand]) -> Ints:
        """All rows in the plan's order: tier, price, request, then the catalogue's order of names."""
        if not chunks:
            return np.zeros(0, dtype=np.int64)
        if len(chunks) == 1:
            return chunks[0]
        rows = np.concatenate(chunks)
        owners = owner[rows]
        tiers = _dense([d.request.tier for d in demands])[owners]
        indices = _dense([d.request.index for d in demands])[owners]
        table = self._table
        order = np.lexsort((table.rank(rows), indices, table.of("hourly", rows), tiers))
        return rows[order]

    def _dropped(self, refused: Sequence[tuple[Rule, Ints]], placed: Ints) -> dict[Rule, int]:
        if not refused:
            return {}
        seen = np.zeros(self._table.size, dtype=bool)
        seen[placed] = True
        counts: dict[Rule, int] = {}
        for rule, rows in refused:
            new = rows[~seen[rows]]
            seen[new] = True
            if len(new):
                counts[rule] = counts.get(rule, 0) + len(new)
        return counts

    def _unblocked(self, rows: Ints, owner: Ints, blocks: Sequence[Block]) -> tuple[Ints, dict[Block, int], frozenset[int]]:
        """The rows that no block matches, how many each block took, and the requests that lost all they had."""
        blocks = [b for b in blocks if self._count >= b.min_count]
        if not blocks or not len(rows):
            return rows, {}, frozenset()
        hit = np.zeros(self._table.size, dtype=np.int32)
        for number, block in enumerate(blocks, 1):
            matched = self._matched(block, rows)
            hit[matched[hit[matched] == 0]] = number
        said = hit[rows]
        kept = rows[said == 0]
        if len(kept) == len(rows):
            return rows, {}, frozenset()
        counts = np.bincount(said, minlength=len(blocks) + 1)
        blocked = {block: int(counts[number]) for number, block in enumerate(blocks, 1) if counts[number]}
        emptied = frozenset(present(owner[rows])) - frozenset(present(owner[kept]))
        return kept, blocked, emptied

    def _matched(self, block: Block, rows: Ints) -> Ints:
        """The rows of the plan (more, where a type is named: all rows of the type) that a block matches."""
        table = self._table
        if block.instance_type:
            rows = table.rows_of_type(block.instance_type)
        named = (("zone", block.zone), ("region", block.region), ("cloud", block.cloud), ("quota_family", block.quota_family))
        for column, name in named:
            if name and len(rows):
                code = table.code(column, name)
                rows = rows[table.of(column, rows) == code] if code >= 0 else rows[:0]
        if block.market and len(rows):
            rows = rows[table.of("is_spot", rows) == (block.market == Market.SPOT.value)]
        if block.account and len(rows):
            mine = {name for name, cloud in self._enabled.items() if cloud.account == block.account}
            rows = rows[table.is_cloud(rows, mine)]
        return rows


def enough(actual: Ints, asked: Quantity, vcpus: Ints) -> Bools:
    """Which figures satisfy a demand; one that is not known does not."""
    if asked.compare is Compare.EXACTLY:
        return np.asarray(np.abs(actual - asked.value) <= asked.value * TOLERANCE)
    floor = asked.value * vcpus if asked.compare is Compare.PER_VCPU else asked.value
    return np.asarray(actual >= floor * (1 - TOLERANCE))


def _is_capability(rule: Rule | None) -> bool:
    return rule is not None and not rule.name.startswith("disabled:")


def _dense(values: Sequence[int]) -> Ints:
    """The same order in small numbers."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([places[v] for v in values], dtype=np.int32)
