"""The market file: the offers of the simulated cloud, their prices and stock, and injected
faults.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.money import Micros, usd
from nbprov.model.places import Market as Side

MARKET_FILE = "market.toml"


class MarketError(ValueError):
    """The market file is invalid; the message names the table and the key."""


@dataclass(frozen=True, slots=True)
class Region:
    """A region with its zones; `price` multiplies the prices of all types there."""

    name: str
    zones: tuple[str, ...]
    price: float = 1.0


@dataclass(frozen=True, slots=True)
class Type:
    """An instance type.

    `hourly` and `spot` are dollars; without `spot` it is sold on demand only. Without `regions` it
    is sold everywhere.
    """

    name: str
    hourly: float
    vcpus: float
    memory_gib: float
    spot: float | None = None
    accelerator: str = ""
    count: float = 0
    device_memory_gib: float | None = None
    family: str = "cpu"
    regions: tuple[str, ...] = ()

    @property
    def units(self) -> float:
        """What one machine counts against a quota: its accelerators, or else its vCPUs."""
        return self.count or self.vcpus


@dataclass(frozen=True, slots=True)
class Where:
    """A pattern for rows of the market; an empty field matches all."""

    region: str = ""
    zone: str = ""
    type: str = ""
    market: str = ""

    def matches(self, row: SimulatedOffer) -> bool:
        """Whether the row matches the pattern."""
        return (
            self.region in ("", row.region)
            and self.zone in ("", row.zone)
            and self.type in ("", row.type.name)
            and self.market in ("", row.side.value)
        )


@dataclass(frozen=True, slots=True)
class SimulatedStock(Where):
    """How many machines of each matching row can run at once.

    The first match counts; rows without a match are unlimited.
    """

    left: int = 0


@dataclass(frozen=True, slots=True)
class Price(Where):
    """Another price, in dollars, for matching rows; the first match counts."""

    hourly: float = 0.0


@dataclass(frozen=True, slots=True)
class Quota:
    """How many units of a family one account may run in a region.

    Units are accelerators, or vCPUs of types without. An empty field means every region or both
    markets.
    """

    family: str
    limit: float
    region: str = ""
    market: str = ""


FAULT_PHASES = {
    "refuse": "submit",
    "slow_start": "submit",
    "refuse_later": "decision",
    "partial": "partial",
    "lose_answer": "answer",
    "slow_answer": "answer",
    "no_ssh": "boot",
    "die": "boot",
    "slow_boot": "boot",
    "stuck": "boot",
    "broken_gpus": "boot",
    "preempt": "life",
}
"""The kinds of faults, and when in the life of a create each is looked at."""


@dataclass(frozen=True, slots=True)
class Fault(Where):
    """An injected fault.

    Attributes
    ----------
    do
        `refuse` (at once), `refuse_later` (when the operation is decided), `partial` (machines
        without stock are left out, and created when the same create comes again and there is more),
        `lose_answer` (carried out, then the connection is closed), `slow_start` and `slow_answer`
        (wait `seconds` before reading the request, or before answering it), `no_ssh` (runs, but
        sshd never starts), `die` (ends `seconds` into its boot), `slow_boot` (takes `seconds`
        longer to boot), `stuck` (never leaves pending), `broken_gpus` (one of its GPUs does not
        answer), `preempt` (taken back `seconds` after it runs).
    call
        The call that `refuse`, the slow ones and `lose_answer` strike; patterns for rows apply to
        `submit` only.
    first
        The number of times it strikes; None for always. Faults of machines count machines, faults
        of calls count calls.
    """

    do: str = ""
    call: str = "submit"
    first: int | None = None
    code: str = "InsufficientCapacity"
    message: str = ""
    seconds: float = 0.0
    retry_after: float | None = None

    @property
    def phase(self) -> str:
        """When it is looked at: submit, decision, answer, boot or life."""
        return FAULT_PHASES[self.do]

    @property
    def key(self) -> str:
        """A name for counting, which lasts as long as the entry is unchanged."""
        body = json.dumps([getattr(self, f.name) for f in fields(self)])
        return hashlib.sha256(body.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Timing:
    """Delays in seconds: deciding a create, booting, ending.

    Also how long young machines are missing from listings, and how long gone ones stay in them.
    """

    accept: Seconds = 0.0
    boot: Seconds = 0.0
    end: Seconds = 0.0
    hidden: Seconds = 0.0
    gone_shown: Seconds = 60.0
    idle_exit: Seconds = 600.0
    creates_per_second: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedOffer:
    """One offer: a type in a zone in one market."""

    region: str
    zone: str
    type: Type
    side: Side
    hourly: Micros


@dataclass(frozen=True, slots=True)
class SimulatedMarket:
    """A market file that was read and checked. `rows` are keyed by (zone, type, market)."""

    account: str = "local"
    as_of: str = ""
    regions: tuple[Region, ...] = ()
    types: tuple[Type, ...] = ()
    prices: tuple[Price, ...] = ()
    stock: tuple[SimulatedStock, ...] = ()
    quota: tuple[Quota, ...] = ()
    faults: tuple[Fault, ...] = ()
    timing: Timing = Timing()
    rows: Mapping[tuple[str, str, str], SimulatedOffer] = field(default_factory=dict)

    def row(self, region: str, zone: str, type_name: str, side: str) -> SimulatedOffer | None:
        """Return a row; None if it is not offered.

        For an empty zone it is the region's first that sells it.
        """
        if zone:
            found = self.rows.get((zone, type_name, side))
            return found if found is not None and found.region == region else None
        return next(
            (
                r
                for r in self.rows.values()
                if (r.region, r.type.name, r.side.value) == (region, type_name, side)
            ),
            None,
        )

    def left(self, row: SimulatedOffer) -> int | None:
        """Return how many machines of a row can run at once; None if the market sets no number."""
        return next((s.left for s in self.stock if s.matches(row)), None)

    def quotas(self, row: SimulatedOffer) -> list[Quota]:
        """Return the limits that apply to a row."""
        return [
            q
            for q in self.quota
            if q.family == row.type.family
            and q.region in ("", row.region)
            and q.market in ("", row.side.value)
        ]

    def table(self) -> list[dict[str, Any]]:
        """Return the rows as JSON-serialisable dictionaries."""
        return [
            {
                "region": row.region,
                "zone": row.zone,
                "instance_type": row.type.name,
                "accelerator": row.type.accelerator,
                "accelerator_count": float(row.type.count),
                "vcpus": float(row.type.vcpus),
                "memory_gib": float(row.type.memory_gib),
                "market": row.side.value,
                "hourly": row.hourly,
                "quota_family": row.type.family,
                "accelerator_memory_gib": row.type.device_memory_gib,
                "as_of": self.as_of,
            }
            for row in self.rows.values()
        ]


T = TypeVar("T")


def _build(cls: type[T], table: str, body: object) -> T:
    if not isinstance(body, dict):
        raise MarketError(f"[{table}] is not a table")
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    if strange := sorted(set(body) - known):
        raise MarketError(f"[{table}] has no key {strange[0]!r}; it has {', '.join(sorted(known))}")
    for name, value in body.items():
        if isinstance(value, bool) or (isinstance(value, int | float) and value < 0):
            raise MarketError(f"[{table}] {name} = {value!r} is not a number of at least 0")
    try:
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in body.items()})
    except TypeError as error:
        raise MarketError(
            f"[{table}] "
            f"{str(error).replace('__init__()', 'an entry').removeprefix(cls.__name__ + '.')}"
        ) from None


def _build_all(cls: type[T], table: str, bodies: object) -> tuple[T, ...]:
    if not isinstance(bodies, list):
        raise MarketError(f"[[{table}]] is written with two brackets")
    return tuple(_build(cls, table, body) for body in bodies)


def _rows(
    regions: Iterable[Region], types: Iterable[Type], prices: tuple[Price, ...]
) -> dict[tuple[str, str, str], SimulatedOffer]:
    found: dict[tuple[str, str, str], SimulatedOffer] = {}
    for region in regions:
        for kind in types:
            if kind.regions and region.name not in kind.regions:
                continue
            for zone in region.zones:
                for side, dollars in ((Side.ON_DEMAND, kind.hourly), (Side.SPOT, kind.spot)):
                    if dollars is None:
                        continue
                    row = SimulatedOffer(
                        region.name,
                        zone,
                        kind,
                        side,
                        usd(Decimal(str(dollars)) * Decimal(str(region.price))),
                    )
                    other = next((p for p in prices if p.matches(row)), None)
                    if other is not None:
                        row = SimulatedOffer(region.name, zone, kind, side, usd(other.hourly))
                    found[zone, kind.name, side.value] = row
    return found


TABLES = (
    "account",
    "as_of",
    "faults",
    "prices",
    "quota",
    "regions",
    "stock",
    "timing",
    "types",
)
"""The names that may stand at the top of a market file."""


def parse(text: str, as_of: str = "") -> SimulatedMarket:
    """Read a market file.

    Raises
    ------
    MarketError
        If it is not TOML, or has a table, key or value that does not belong there.

    Examples
    --------
    >>> market = parse('''
    ... [[regions]]
    ... name = "here"
    ... zones = ["here-a"]
    ... [[types]]
    ... name = "small"
    ... hourly = 0.1
    ... vcpus = 2
    ... memory_gib = 4
    ... ''')
    >>> market.row("here", "here-a", "small", "on-demand").hourly
    100000
    """
    try:
        body: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MarketError(f"not TOML: {error}") from None
    if strange := sorted(set(body) - set(TABLES)):
        raise MarketError(f"there is no table {strange[0]!r}; there are {', '.join(TABLES)}")
    regions = _build_all(Region, "regions", body.get("regions", []))
    types = _build_all(Type, "types", body.get("types", []))
    prices = _build_all(Price, "prices", body.get("prices", []))
    faults = _build_all(Fault, "faults", body.get("faults", []))
    for fault in faults:
        if fault.do not in FAULT_PHASES:
            raise MarketError(
                f"[[faults]] do = {fault.do!r}; it is one of {', '.join(FAULT_PHASES)}"
            )
    return SimulatedMarket(
        account=str(body.get("account", "local")),
        as_of=str(body.get("as_of", as_of)),
        regions=regions,
        types=types,
        prices=prices,
        stock=_build_all(SimulatedStock, "stock", body.get("stock", [])),
        quota=_build_all(Quota, "quota", body.get("quota", [])),
        faults=faults,
        timing=_build(Timing, "timing", body.get("timing", {})),
        rows=_rows(regions, types, prices),
    )
