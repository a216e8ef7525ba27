"""Search the rows of the catalogue that satisfy resolved requests, in whole columns.

One look-up answers all requests that differ only in place and price cap. A row counts once: for the
most preferred request that it satisfies, or, if none takes it, for the first rule that dropped it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.blocks import Block
from nbprov.model.money import exact_usd
from nbprov.model.offers import CLOSED, DropRule, RuleKind
from nbprov.model.resources import PlaceGlob
from nbprov.model.run_policies import OrderPolicy
from nbprov.model.spec import ExposedPorts

from .conditions import PlanConditions
from .filters.blocks import BlockFilter
from .filters.features import Needs, lacks, needs_of
from .filters.machine_sizes import is_big_enough
from .filters.machines import machine_rules
from .filters.place_masks import PlaceMasks
from .lookup.catalog_columns import present
from .lookup.resolved_request import ResolvedRequest
from .lookup.scratch_array import ScratchArray, borrowed
from .ordering import are_known, plan_order, stock_outlook
from .search_result import SearchResult, SearchStage

if TYPE_CHECKING:
    from .lookup.catalog_columns import CatalogColumns, Ints


TUNNELS = ExposedPorts()
"""No port is opened to the internet."""
ELSEWHERE = DropRule(RuleKind.PLACE, "elsewhere than asked")
NEEDLESS_GPU = DropRule(
    RuleKind.NEEDLESS_GPU,
    "machines with accelerators that nobody asked for, where the cloud has some without",
)


class CandidateSearch:
    """One search over the catalogue's columns.

    Parameters
    ----------
    count
        Number of nodes.
    expose
        Which ports are opened to the internet.
    prefer
        What comes first inside a tier.
    """

    def __init__(
        self,
        table: CatalogColumns,
        conditions: PlanConditions,
        *,
        count: int,
        expose: ExposedPorts = TUNNELS,
        prefer: OrderPolicy = OrderPolicy.CHEAPEST,
    ) -> None:
        self._table = table
        self._conditions = conditions
        self._enabled = conditions.enabled
        self._blocks = conditions.blocks
        self._demo = conditions.demo
        self._success_model = conditions.success_model
        self._count = count
        self._expose = expose
        self._prefer = prefer
        self._place_masks = PlaceMasks(table)
        self._hardware: dict[tuple[object, ...], Ints] = {}
        self._verdicts: dict[tuple[Needs, frozenset[str]], tuple[Ints, list[DropRule]]] = {}
        self._unusable: dict[str, int] = {}
        self._out: Ints = np.zeros(0, dtype=np.int64)

    def run(self, requests: Sequence[ResolvedRequest]) -> SearchResult:
        """Find, order and count the offers of all requests."""
        with borrowed(self._table.size) as owner:
            return self._found(requests, owner)

    def _found(self, requests: Sequence[ResolvedRequest], owner: ScratchArray) -> SearchResult:
        """The result; `owner` notes the request that takes each row."""
        stages = [SearchStage.HARDWARE] * len(requests)
        refused: list[tuple[DropRule, Ints]] = []
        chunks: list[Ints] = []
        order = sorted(
            range(len(requests)),
            key=lambda i: (requests[i].request.tier, requests[i].request.index, i),
        )
        for i in order:
            resolved = requests[i]
            if resolved.unknown is not None:
                continue
            rows, stages[i] = self._narrow(self.hardware(resolved), resolved, refused)
            if len(rows):
                rows = rows[owner[rows] < 0]
                stages[i] = SearchStage.PLACED if len(rows) else SearchStage.TAKEN
                owner[rows] = i
                chunks.append(rows)
        rows = self._ordered(chunks, owner, requests)
        placed = {_hardware_key(d): d for d in requests if d.is_placed and d.unknown is None}
        refused += [(ELSEWHERE, self.hardware(resolved)) for resolved in placed.values()]
        dropped = self._dropped(refused, rows)
        rows, blocked, emptied = self._unblocked(rows, owner)
        idle = [
            pair
            for i, resolved in enumerate(requests)
            if stages[i] is SearchStage.PLACED
            for pair in self._idle(resolved)
        ]
        sold_out = int(np.isin(rows, self._out).sum()) if len(self._out) else 0
        return SearchResult(
            rows, owner[rows], stages, dropped, blocked, emptied, idle, self._unusable, sold_out
        )

    def _idle(self, resolved: ResolvedRequest) -> Iterator[tuple[ResolvedRequest, PlaceGlob]]:
        for rule in resolved.rules:
            if len(rule.allow) > 1:
                rows = self.hardware(resolved)
                yield from (
                    (resolved, glob)
                    for glob in rule.allow
                    if not self._place_masks.under(rows, glob).any()
                )

    def hardware(self, resolved: ResolvedRequest) -> Ints:
        """The rows with a request's hardware and market in all places, in the order of price."""
        key = _hardware_key(resolved)
        known = self._hardware.get(key)
        if known is None:
            known = self._table.select(resolved.query)
            if resolved.plain:
                known = known[is_big_enough(self._table, known, resolved.request, self._enabled)]
            self._hardware[key] = known
        return known

    def _narrow(
        self, rows: Ints, resolved: ResolvedRequest, refused: list[tuple[DropRule, Ints]]
    ) -> tuple[Ints, SearchStage]:
        """Apply place, clouds, capabilities and price cap to the rows.

        Returns the rows that are left, and the stage at which the last ones were dropped.
        """
        if not len(rows):
            return rows, SearchStage.HARDWARE
        rows = self.in_place(rows, resolved)
        if not len(rows):
            return rows, SearchStage.PLACE
        verdict, rules = self._verdict(resolved)
        said = verdict[self._table.of("cloud", rows)]
        if said.any():
            against = present(said[said > 0])
            taken = [(rules[code - 1], rows[said == code]) for code in against]
            refused += taken
            self._note_unusable(resolved, taken)
            last = (
                SearchStage.CAPABILITY
                if any(_is_capability(rules[code - 1]) for code in against)
                else SearchStage.CLOUD
            )
            rows = rows[said == 0]
            if not len(rows):
                return rows, last
        rows = self.capable(rows, resolved, refused)
        if not len(rows):
            return rows, SearchStage.MACHINE
        if resolved.plain:
            rows = self._without_needless_gpus(rows, refused)
        cap = resolved.request.max_hourly
        if cap is not None:
            within = self._table.of("hourly", rows) <= cap
            if not within.all():
                refused.append(
                    (
                        DropRule(
                            RuleKind.PRICE, f"dearer than the cap of {exact_usd(cap)} an hour"
                        ),
                        rows[~within],
                    )
                )
                rows = rows[within]
        return rows, SearchStage.PLACED if len(rows) else SearchStage.PRICE

    def _note_unusable(
        self, resolved: ResolvedRequest, taken: Sequence[tuple[DropRule, Ints]]
    ) -> None:
        """Keep the cheapest row of each cloud that is not set up or does not answer.

        Rows come in the order of price, so only the first one is looked at.
        """
        table, cap = self._table, resolved.request.max_hourly
        for rule, rows in taken:
            cloud = rule.subject
            if rule.kind not in CLOSED or (
                cap is not None and int(table.of("hourly", rows[:1])[0]) > cap
            ):
                continue
            known = self._unusable.get(cloud)
            both = rows[:1] if known is None else np.array([known, int(rows[0])])
            self._unusable[cloud] = int(both[table.rank(both).argmin()])

    def capable(
        self, rows: Ints, resolved: ResolvedRequest, refused: list[tuple[DropRule, Ints]]
    ) -> Ints:
        """The rows whose machines can do what only some machines of their cloud can.

        The other rows are added to `refused`.
        """
        all_kept = np.ones(len(rows), dtype=bool)
        for rule, kept in machine_rules(self._table, rows, resolved.request):
            if not kept.all():
                refused.append((rule, rows[all_kept & ~kept]))
                all_kept &= kept
        return rows if all_kept.all() else np.asarray(rows[all_kept])

    def allowed(self, rows: Ints, resolved: ResolvedRequest) -> Ints:
        """The rows of clouds that may be used for a request."""
        verdict, _ = self._verdict(resolved)
        return np.asarray(rows[verdict[self._table.of("cloud", rows)] == 0])

    def reasons(self, rows: Ints, resolved: ResolvedRequest) -> list[str]:
        """Why the clouds of these rows may not be used for a request, each reason once."""
        verdict, rules = self._verdict(resolved)
        said = present(verdict[self._table.of("cloud", rows)])
        return [rules[code - 1].words for code in said if code]

    def _without_needless_gpus(self, rows: Ints, refused: list[tuple[DropRule, Ints]]) -> Ints:
        """Drop machines with accelerators where the cloud has cheaper ones without that will do."""
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

    def in_place(self, rows: Ints, resolved: ResolvedRequest) -> Ints:
        """The rows in the place that a request names."""
        for column, name in (
            ("cloud", resolved.cloud),
            ("region", resolved.region),
            ("zone", resolved.zone),
        ):
            if name:
                rows = rows[self._table.of(column, rows) == self._table.code(column, name)]
        return (
            rows[self._place_masks.allowed(rows, resolved.rules)]
            if resolved.rules and len(rows)
            else rows
        )

    def _verdict(self, resolved: ResolvedRequest) -> tuple[Ints, list[DropRule]]:
        """What each cloud's offers are refused for, by cloud code.

        0 means that a request may use the cloud; other numbers count the rules from 1.
        """
        needs, named = needs_of(resolved.request, self._count, self._expose), resolved.named
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
                    RuleKind.SILENT if name in self._conditions.silent else RuleKind.DISABLED,
                    self._conditions.why_closed(name),
                    name,
                    self._conditions.why_not(name),
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

    def _ordered(
        self, chunks: Sequence[Ints], owner: ScratchArray, requests: Sequence[ResolvedRequest]
    ) -> Ints:
        """All rows in the plan's order; notes those that are out of stock."""
        if not chunks:
            return np.zeros(0, dtype=np.int64)
        if (
            len(chunks) == 1
            and self._prefer is OrderPolicy.CHEAPEST
            and not are_known(self._table, chunks[0], self._success_model).any()
        ):
            return self._table.in_rank_order(chunks[0])
        rows = np.concatenate(chunks)
        seen = stock_outlook(self._table, rows, self._success_model)
        self._out = rows[seen.is_out]
        order = plan_order(
            self._table,
            rows,
            [(d.request.tier, d.request.index) for d in requests],
            owner[rows],
            self._prefer,
            self._success_model,
            seen,
        )
        return rows[order]

    def _dropped(
        self, refused: Sequence[tuple[DropRule, Ints]], placed: Ints
    ) -> dict[DropRule, int]:
        if not refused:
            return {}
        counts: dict[DropRule, int] = {}
        with borrowed(self._table.size) as seen:
            seen[placed] = 1
            for rule, rows in refused:
                new = rows[seen[rows] < 0]
                seen[new] = 1
                if len(new):
                    counts[rule] = counts.get(rule, 0) + len(new)
        return counts

    def _unblocked(
        self, rows: Ints, owner: ScratchArray
    ) -> tuple[Ints, Sequence[tuple[Block, int]], frozenset[int]]:
        """The rows that no block matches, how many each block took, and the requests left with
        none.
        """
        blocks = self._blocks
        if not blocks or not len(rows):
            return rows, (), frozenset()
        taken = BlockFilter(self._table, self._enabled, self._count).taken(rows, blocks)
        kept = rows[taken < 0]
        if len(kept) == len(rows):
            return rows, (), frozenset()
        counts = np.bincount(taken[taken >= 0], minlength=len(blocks))
        blocked = [
            (blocks[number], int(counts[number])) for number in np.flatnonzero(counts).tolist()
        ]
        emptied = frozenset(present(owner[rows])) - frozenset(present(owner[kept]))
        return kept, blocked, emptied


def _hardware_key(resolved: ResolvedRequest) -> tuple[object, ...]:
    """The key of a look-up: requests with equal keys share it."""
    return (
        (resolved.query, resolved.request.cpus, resolved.request.memory)
        if resolved.plain
        else (resolved.query,)
    )


def _is_capability(rule: DropRule) -> bool:
    return rule.kind not in (*CLOSED, RuleKind.UNNAMED)
