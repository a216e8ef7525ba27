"""The stories that are cut short.

What the market does, what the person does, and which transitions each story passes.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

ZONES = ("here-a", "here-b", "here-c", "there-a")

MARKET = """
account = "chaos"
[timing]
accept = {accept}
boot = {boot}
end = {end}
hidden = {hidden}
gone_shown = {gone_shown}
idle_exit = 60
[[regions]]
name = "here"
zones = ["here-a", "here-b", "here-c"]
[[regions]]
name = "there"
zones = ["there-a"]
[[types]]
name = "small"
hourly = 0.1
vcpus = 2
memory_gib = 4
"""

LAUNCH = (
    "runs.open",
    "cloud.quote",
    "launches.intend",
    "events.add",
    "cloud.submit",
    "launches.sent",
    "cloud.poll",
    "launches.accepted",
    "blocks.clear",
    "launches.move(booting)",
)
UP = (
    "cloud.list",
    "instances.seen",
    "launches.move(ssh)",
    "launches.move(agent)",
    "guards.set",
    "clusters.hand_over",
    "leases.release",
    "leases.renew",
)
END = ("cloud.terminate", "launches.move(gone)", "blocks.free_quota")

PASSES: dict[str, tuple[str, ...]] = {
    "plain": (*LAUNCH, *UP),
    "refused": ("launches.failed(refused)", "blocks.remember", *LAUNCH),
    "refused-later": ("launches.failed(refused)", "cloud.poll", "launches.sent"),
    "sold-out": (
        "runs.move(failed)",
        "launches.failed(refused)",
        "blocks.remember",
        "leases.release",
    ),
    "rate-limit": ("launches.intend_again", "cloud.submit"),
    "lost-answer": (
        "launches.failed(unknown)",
        "launches.failed(absent)",
        "cloud.submit",
        "cloud.list",
        "launches.sent",
    ),
    "dearer": ("launches.reprice", "launches.failed(unknown)", "cloud.quote", "cloud.submit"),
    "half-made": ("launches.failed(ending)", *END, "blocks.remember", "instances.seen"),
    "cancel": ("runs.request_cancel", "runs.move(cancelled)", "launches.failed(ending)", *END),
    "race": (
        "launches.failed(ending)",
        "launches.move(gone)",
        "clusters.hand_over",
        "leases.release",
        "cloud.terminate",
        "launches.accepted",
        "launches.move(ssh)",
    ),
    "hedge": (
        "launches.intend",
        "cloud.submit",
        "launches.sent",
        "launches.accepted",
        "launches.failed(ending)",
        "launches.move(gone)",
        "clusters.hand_over",
    ),
    "wait": (
        "blocks.remember",
        "runs.move(waiting)",
        "runs.prolong",
        "runs.move(launching)",
        "events.add",
        *LAUNCH,
        *UP,
    ),
    "gang": (*LAUNCH, "guards.set", "clusters.hand_over", "launches.move(agent)"),
    "partial": (
        "launches.prolong",
        "cloud.submit",
        "cloud.poll",
        "launches.failed(ending)",
        *END,
        "clusters.hand_over",
    ),
    "down": (
        "clusters.move(ending)",
        "clusters.move(ended)",
        "cloud.terminate",
        "blocks.free_quota",
        "clusters.hand_over",
    ),
    "stop-start": (
        *(
            "clusters.move(stopping)",
            "clusters.move(stopped)",
            "clusters.move(starting)",
            "clusters.move(running)",
            "clusters.reprice",
            "clusters.resume_prices",
        ),
        *("cloud.stop", "cloud.start"),
    ),
    "replace": (
        *(
            "replacements.lose_machines",
            "replacements.intend",
            "replacements.sent",
            "replacements.made",
            "replacements.ready",
        ),
        "cloud.submit",
    ),
    "replace-stop": ("replacements.intend", "replacements.end"),
    "replace-dearer": ("replacements.reprice", "replacements.made", "replacements.ready"),
    "leave": ("leases.release_all",),
    "late": (
        "launches.failed(unknown)",
        "cloud.submit",
        "cloud.list",
        "launches.accepted",
        "launches.move(booting)",
    ),
    "log-fails": (
        "launches.accepted",
        "events.add",
        "launches.move(ssh)",
        "clusters.hand_over",
        "leases.release",
    ),
    "locked": (
        "launches.sent",
        "cloud.poll",
        "launches.accepted",
        "launches.move(booting)",
        "clusters.hand_over",
    ),
    "two-deaths": (
        "leases.take",
        "cloud.list",
        "instances.seen",
        "launches.move(ssh)",
        "clusters.hand_over",
        "launches.move(gone)",
        "launches.failed(ending)",
        "leases.release",
    ),
}
"""Which transitions a story passes.

`replace`: a machine of two is taken back once the cluster is up, and another takes its place;
`replace-stop`: the person stops the cluster meanwhile; `replace-dearer`: its create is sent again
at a higher price. `partial`: the first place makes one machine of two, which is held in vain.
`hedge`: the first place does not answer for a while, and a second joins. `wait`: nothing is in
stock in the first pass; the person lets it wait longer and clears the blocks, and a later pass, of
this process or of the next, finds a machine. `late`: a create's answer is lost, and it is carried
out after that, but before the instant until which it was wanted. `dearer`: a create's answer is
lost, and it is sent again at a higher price. `log-fails`: the provision log cannot be written.
`locked`: another process holds the ledger for a while. `two-deaths` is cut twice: in the launch,
and by the kernel that takes it up.
"""

TRANSITIONS = tuple(sorted({t for story in PASSES.values() for t in story}))
POINTS = tuple((t, when) for t in TRANSITIONS for when in ("before", "after"))

REPLACING = ("replace", "replace-stop", "replace-dearer")
"""Stories of clusters with an engine, of which a machine is lost."""

FIRST_CUTS = (
    ("launches.accepted", "after"),
    ("cloud.submit", "after"),
    ("launches.move(ssh)", "after"),
    ("launches.intend", "after"),
    ("runs.request_cancel", "after"),
)


@dataclass(frozen=True)
class Story:
    """One run: everything that its processes are told.

    Attributes
    ----------
    kind
        A key of `PASSES`.
    transition, when, nth
        Where the process is killed.
    earlier
        For `two-deaths`: where the first process is killed, before the one that takes up is.
    cancel_at
        The state of an attempt in which the person cancels.
    submit_timeout
        For `late`: how long a create's answer is waited for.
    """

    number: int
    kind: str
    transition: str
    when: str
    nth: int
    market: str
    count: int = 1
    race: int = 1
    earlier: tuple[str, str] | None = None
    cancel_at: str = ""
    replayable: bool = True
    ssh_deadline: float = 10.0
    submit_timeout: float = 0.0
    in_kernel: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the process that plays it."""
        return asdict(self)


def _fault(number: int, **entry: Any) -> str:
    # The message makes the entry a new one for the daemon, which counts how often each has struck.
    entry["message"] = f"story {number}"
    return "[[faults]]\n" + "".join(f"{k} = {v!r}\n".replace("'", '"') for k, v in entry.items())


def _faults(kind: str, number: int, transition: str, dice: random.Random) -> str:
    some = dice.randint(1, 2)
    match kind:
        case "refused":
            return "".join(
                _fault(
                    number,
                    do="refuse",
                    zone=zone,
                    code=dice.choice(["InsufficientCapacity", "NotOffered"]),
                )
                for zone in ZONES[:some]
            )
        case "refused-later":
            return "".join(_fault(number, do="refuse_later", zone=zone) for zone in ZONES[:some])
        case "sold-out":
            return _fault(number, do=dice.choice(["refuse", "refuse_later"]), code="QuotaExceeded")
        case "rate-limit":
            return _fault(
                number,
                do="refuse",
                code=dice.choice(["RateExceeded", "Unavailable"]),
                first=1,
                retry_after=0.05,
            )
        case "lost-answer" if transition == "launches.failed(absent)":
            return _fault(number, do="lose_answer", first=1) + _fault(
                number, do="refuse_later", first=1
            )
        case "dearer":
            return _fault(number, do="lose_answer", first=2)
        case "lost-answer":
            return _fault(number, do="lose_answer", first=some)
        case "hedge":
            return _fault(
                number,
                do=dice.choice(["slow_answer", "slow_start"]),
                seconds=dice.choice([1.3, 2.0]),
                first=1,
            )
        case "wait":
            return "".join(
                _fault(number, do="refuse", zone=zone, code="InsufficientCapacity", first=1)
                for zone in ZONES
            )
        case "late":
            return _fault(number, do="slow_start", seconds=dice.choice([0.6, 1.2]), first=1)
        case "half-made":
            return _fault(
                number, **dice.choice([{"do": "die", "first": 1}, {"do": "no_ssh", "first": 1}])
            )
        case "partial":
            return f'[[stock]]\nzone = "{ZONES[0]}"\nleft = 1\n' + _fault(
                number, do="partial", zone=ZONES[0]
            )
        case "cancel" if dice.random() < 0.3:
            return _fault(number, do="slow_answer", seconds=0.3, first=1)
        case _:
            return ""


def story(seed: int, number: int, point: tuple[str, str], *, in_kernel: bool = False) -> Story:
    """The story of one run; the same for the same seed and number.

    Parameters
    ----------
    point
        The transition at which it is cut, and `before` or `after`.
    """
    dice = random.Random(f"{seed}/{number}")
    transition, when = point
    kind = dice.choice([kind for kind, passes in PASSES.items() if transition in passes])
    earlier = dice.choice(FIRST_CUTS) if kind == "two-deaths" else None
    if kind == "two-deaths":
        if transition in ("clusters.hand_over", "launches.move(ssh)"):
            earlier = ("launches.accepted", "after")
        elif transition in ("launches.failed(ending)", "launches.move(gone)"):
            earlier = ("runs.request_cancel", "after")
    hidden = dice.choice([0.0, 0.0, 0.15])
    market = MARKET.format(
        accept=0.5 if kind == "replace-stop" else dice.choice([0.0, 0.05, 0.2]),
        boot=dice.choice([0.0, 0.05]),
        end=dice.choice([0.0, 0.1]),
        hidden=hidden,
        gone_shown=dice.choice([0.0, 60.0]),
    )
    return Story(
        number=number,
        kind=kind,
        transition=transition,
        when=when,
        nth=2
        if kind in REPLACING and transition == "cloud.submit"
        else dice.choice([2, 3])
        if transition in ("events.add", "cloud.list", "cloud.poll") and dice.random() < 0.5
        else 1,
        market=market + _faults(kind, number, transition, dice),
        count=2 if kind in ("gang", "partial", *REPLACING) else 1,
        race=dice.choice([2, 3]) if kind == "race" else 1,
        earlier=earlier,
        cancel_at=_cancel_at(kind, transition, earlier, dice),
        replayable=dice.random() < 0.5
        if kind in ("lost-answer", "late")
        and transition not in ("launches.sent", "launches.failed(absent)")
        else True,
        ssh_deadline=1.5 if kind == "half-made" else 10.0,
        submit_timeout=0.3 if kind == "late" else 0.0,
        in_kernel=in_kernel,
    )


def _cancel_at(
    kind: str, transition: str, earlier: tuple[str, str] | None, dice: random.Random
) -> str:
    if kind == "cancel":
        made = transition in ("launches.failed(ending)", *END)
        return dice.choice(
            ["booting", "ssh", "agent"] if made else ["intent", "sent", "booting", "ssh"]
        )
    return "ssh" if earlier is not None and earlier[0] == "runs.request_cancel" else ""
