"""The stories that are cut short: what the market does, what the person does, and which transitions each story passes."""

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
    "open_run",
    "cloud.quote",
    "intend",
    "note",
    "cloud.submit",
    "sent",
    "cloud.poll",
    "accepted",
    "clear_blocks",
    "set_launch(booting)",
)
UP = (
    "cloud.list",
    "seen",
    "set_launch(ssh)",
    "set_launch(agent)",
    "set_guard",
    "hand_over",
    "release",
    "renew",
)
END = ("cloud.terminate", "set_launch(gone)", "free_quota")

PASSES: dict[str, tuple[str, ...]] = {
    "plain": (*LAUNCH, *UP),
    "refused": ("failed(refused)", "remember", *LAUNCH),
    "refused-later": ("failed(refused)", "cloud.poll", "sent"),
    "sold-out": ("set_run(failed)", "failed(refused)", "remember", "release"),
    "rate-limit": ("intend_again", "cloud.submit"),
    "lost-answer": ("failed(unknown)", "failed(absent)", "cloud.submit", "cloud.list", "sent"),
    "half-made": ("failed(ending)", *END, "remember", "seen"),
    "cancel": ("request_cancel", "set_run(cancelled)", "failed(ending)", *END),
    "race": (
        "failed(ending)",
        "set_launch(gone)",
        "hand_over",
        "release",
        "cloud.terminate",
        "accepted",
        "set_launch(ssh)",
    ),
    "hedge": (
        "intend",
        "cloud.submit",
        "sent",
        "accepted",
        "failed(ending)",
        "set_launch(gone)",
        "hand_over",
    ),
    "wait": ("remember", "set_run(waiting)", "set_run(launching)", "note", *LAUNCH, *UP),
    "gang": (*LAUNCH, "set_guard", "hand_over", "set_launch(agent)"),
    "partial": ("prolong", "cloud.submit", "cloud.poll", "failed(ending)", *END, "hand_over"),
    "down": (
        "set_cluster(ending)",
        "set_cluster(ended)",
        "cloud.terminate",
        "free_quota",
        "hand_over",
    ),
    "stop-start": (
        *(
            "set_cluster(stopping)",
            "set_cluster(stopped)",
            "set_cluster(starting)",
            "set_cluster(running)",
            "reprice",
            "resume_prices",
        ),
        *("cloud.stop", "cloud.start"),
    ),
    "replace": (
        *(
            "lose_machines",
            "intend_replacement",
            "replacement_sent",
            "replacement_made",
            "replacement_ready",
        ),
        "cloud.submit",
    ),
    "replace-stop": ("intend_replacement", "end_replacement"),
    "leave": ("release_all",),
    "late": ("failed(unknown)", "cloud.submit", "cloud.list", "accepted", "set_launch(booting)"),
    "log-fails": ("accepted", "note", "set_launch(ssh)", "hand_over", "release"),
    "locked": ("sent", "cloud.poll", "accepted", "set_launch(booting)", "hand_over"),
    "two-deaths": (
        "take",
        "cloud.list",
        "seen",
        "set_launch(ssh)",
        "hand_over",
        "set_launch(gone)",
        "failed(ending)",
        "release",
    ),
}
"""Which transitions a story passes.

`replace`: a machine of two is taken back once the cluster is up, and another takes its place; `replace-stop`: the person stops the cluster meanwhile.
`partial`: the first place makes one machine of two, which is held in vain. `hedge`: the first place does not answer for a while, and a second
joins. `wait`: nothing is in stock in the first pass; the person clears the blocks, and a later pass, of this process or of the next, finds a machine. `late`: a create's answer is lost, and it is carried out after that, but before the instant until which it was wanted. `log-fails`: the
provision log cannot be written. `locked`: another process holds the ledger for a while. `two-deaths` is cut twice: in the launch, and by
the kernel that takes it up.
"""

TRANSITIONS = tuple(sorted({t for story in PASSES.values() for t in story}))
POINTS = tuple((t, when) for t in TRANSITIONS for when in ("before", "after"))

REPLACING = ("replace", "replace-stop")
"""Stories of clusters with an engine, of which a machine is lost."""

FIRST_CUTS = (
    ("accepted", "after"),
    ("cloud.submit", "after"),
    ("set_launch(ssh)", "after"),
    ("intend", "after"),
    ("request_cancel", "after"),
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
        case "lost-answer" if transition == "failed(absent)":
            return _fault(number, do="lose_answer", first=1) + _fault(
                number, do="refuse_later", first=1
            )
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
        if transition in ("hand_over", "set_launch(ssh)"):
            earlier = ("accepted", "after")
        elif transition in ("failed(ending)", "set_launch(gone)"):
            earlier = ("request_cancel", "after")
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
        if transition in ("note", "cloud.list", "cloud.poll") and dice.random() < 0.5
        else 1,
        market=market + _faults(kind, number, transition, dice),
        count=2 if kind in ("gang", "partial", *REPLACING) else 1,
        race=dice.choice([2, 3]) if kind == "race" else 1,
        earlier=earlier,
        cancel_at=_cancel_at(kind, transition, earlier, dice),
        replayable=dice.random() < 0.5
        if kind in ("lost-answer", "late") and transition not in ("sent", "failed(absent)")
        else True,
        ssh_deadline=1.5 if kind == "half-made" else 10.0,
        submit_timeout=0.3 if kind == "late" else 0.0,
        in_kernel=in_kernel,
    )


def _cancel_at(
    kind: str, transition: str, earlier: tuple[str, str] | None, dice: random.Random
) -> str:
    if kind == "cancel":
        made = transition in ("failed(ending)", *END)
        return dice.choice(
            ["booting", "ssh", "agent"] if made else ["intent", "sent", "booting", "ssh"]
        )
    return "ssh" if earlier is not None and earlier[0] == "request_cancel" else ""
