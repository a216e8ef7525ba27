"""`%nbprov COMMAND …`: one function a command, one table of all."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbprov.api import session
from nbprov.model.causes import RULES
from nbprov.model.clock import iso, short_duration
from nbprov.model.errors import UsageError
from nbprov.model.money import format_usd

from .arguments import HelpWanted, MagicParser
from .rendering.tables import Column, text_table

Configure = Callable[[MagicParser], object]
Act = Callable[[Any, argparse.Namespace, str | None], Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it does in one line, its arguments, its function."""

    summary: str
    act: Act
    configure: Configure = lambda parser: None


def run_command(shell: Any, line: str, cell: str | None) -> Any:
    """Run one `%nbprov` line.

    Raises
    ------
    UsageError
        If there is no such command, with the closest one.
    """
    word, _, rest = line.strip().partition(" ")
    if word in ("", "--help", "-h", "help"):
        print(overview())
        return None
    if word in LATER:
        print(f"%nbprov {word}: comes later; {LATER[word]}")
        return None
    command = COMMANDS.get(word)
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(word, [*COMMANDS, *LATER], n=1)
        raise UsageError(
            f"%nbprov has no command {word!r}", hint=f"did you mean {near[0]}?" if near else f"commands: {', '.join(COMMANDS)}"
        )
    parser = MagicParser(f"%nbprov {word}", command.summary)
    command.configure(parser)
    try:
        arguments = parser.parse_line(rest)
    except HelpWanted as wanted:
        print(wanted)
        return None
    return command.act(shell, arguments, cell)


def overview() -> str:
    """What `%nbprov --help` prints."""
    width = max(map(len, [*COMMANDS, *LATER]))
    lines = ["%nbprov COMMAND …   (%nbprov COMMAND --help tells more)", ""]
    lines += [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    lines += [f"  {name:<{width}}  comes later; {what}" for name, what in LATER.items()]
    return "\n".join(lines)


def _print_table(heads: list[str], rows: list[list[str]], none: str) -> None:
    if not rows:
        print(none)
        return
    for line in text_table([Column(head) for head in heads], rows):
        print(line)


# ---------------------------------------------------------------- what is


def _check(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    for result in session().check(arguments.cloud or None):
        mark = "enabled " if result.enabled else "disabled"
        print(f"{result.cloud:<10} {mark}  {result.account} {result.credential}".rstrip())
        if result.problem is not None:
            print(f"           {result.problem.sentence()}\n           next: {RULES[result.problem.cause].advice}")
        for detail in result.details:
            print(f"           {detail}")


def _plan(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from .panels import PriceTable
    from .shown import say_remarks, show

    if cell is None:
        raise UsageError("%%nbprov plan wants the YAML in the cell", hint="write %%nbprov plan, then the spec below it")
    spec = session().parse(cell)
    say_remarks(spec)
    plan = session().plan(spec)
    show(PriceTable(plan, title=f"plan: {len(plan.candidates):,} candidates"))
    for note in plan.notes:
        print(f"note: {note}")
    for dropped in plan.dropped:
        print(f"left out: {dropped.count:,} offers: {dropped.words}")


def _attempts(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    rows = [
        [str(number), str(candidate.offer.place), candidate.offer.instance_type, f"{format_usd(candidate.hourly)}/h", state, reason]
        for number, (state, candidate, reason, _token) in enumerate(session().attempts(arguments.name), 1)
    ]
    _print_table(["#", "place", "type", "price", "state", "reason"], rows, "no attempts yet")


def _blocks(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    here = session()
    if arguments.clear:
        print(f"{here.clear_blocks()} blocks forgotten")
        return
    now = here.engine.clock.now()
    rows = [[b.words(), RULES[b.cause].words, short_duration(b.expires - now), b.message] for b in here.blocks()]
    _print_table(["blocked", "because", "for", "the cloud said"], rows, "nothing is blocked")


def _costs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    costs = session().costs()
    rows = [[c.name, iso(c.started), c.state, str(c.attempts), format_usd(c.cost)] for c in costs]
    _print_table(["name", "started", "state", "attempts", "cost"], rows, "nothing has been launched yet")
    if rows:
        print(f"total {format_usd(sum(c.cost for c in costs))}")


def _sweep(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    lines = session().sweep(end=arguments.end)
    print("\n".join(lines) if lines else "no machine of ours is unknown to the ledger")


def _catalog(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    catalog = session().catalog()
    rows = []
    for cloud in catalog.clouds():
        info = catalog.info(cloud)
        rows.append(
            [cloud, f"{info.rows:,}", f"{info.gpu_rows:,}", f"{info.oldest} – {info.newest}", info.sources[0][0] if info.sources else ""]
        )
    _print_table(["cloud", "rows", "with GPU", "as of", "source"], rows, "the catalogue is empty")


# ---------------------------------------------------------------- clusters


def _down(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    for name in _names(arguments):
        started = datetime.datetime.now(datetime.UTC)
        cluster = session().cluster(name)
        cost_of = cluster.view
        cluster.down().wait()
        seconds = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
        print(f"{name}: ended, confirmed by the cloud's list after {short_duration(seconds)}; {_cost_line(name, cost_of)}")


def _cost_line(name: str, view: Callable[[], Any]) -> str:
    costs = {c.name: c for c in reversed(session().costs())}
    return f"it cost {format_usd(costs[name].cost)}" if name in costs else "its cost is in %nbprov costs"


def _stop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    for name in _names(arguments):
        session().cluster(name).stop().wait()
        print(f"{name}: stopped; its disk is kept and may be billed. %nbprov start {name} brings it back, %nbprov down {name} ends it")


def _start(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    for name in _names(arguments):
        session().cluster(name).start().wait()
        print(f"{name}: running")


def _names(arguments: argparse.Namespace) -> list[str]:
    if arguments.all:
        return [view.name for view in session().clusters()]
    if not arguments.names:
        live = ", ".join(view.name for view in session().clusters()) or "none is live"
        raise UsageError("which cluster?", hint=f"live clusters: {live}; --all means all of yours")
    return list(arguments.names)


def _autostop(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    from nbprov.machines.guarding import guard_lines

    for line in guard_lines(session().cluster(arguments.name).guards()):
        print(line)


def _jobs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    now = session().engine.clock.now()
    rows = [
        [
            job.id,
            job.kind,
            job.state,
            "" if job.exit_code is None else str(job.exit_code),
            short_duration((job.ended or now) - (job.started or now)),
        ]
        for job in session().cluster(arguments.name).jobs()
    ]
    _print_table(["id", "kind", "state", "exit", "time"], rows, f"{arguments.name} has no jobs")


def _logs(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    print(session().cluster(arguments.name).logs(arguments.job, last=arguments.last), end="")


def _watch_provision_log(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    here = session()
    run = next((r for r in here.engine.ledger.runs() if not arguments.name or r.name == arguments.name), None)
    if run is None:
        print("nothing has been launched yet")
        return
    path = here.engine.home / "logs" / f"{run.run_id}.log"
    print(path.read_text(encoding="utf-8") if path.exists() else f"{run.name}: its provision log is gone", end="")


def _clusters_argument(parser: MagicParser) -> None:
    parser.add_argument("names", nargs="*", help="the clusters")
    parser.add_argument("--all", action="store_true", help="all of yours")


def _one_cluster(parser: MagicParser) -> None:
    parser.add_argument("name", help="the cluster")


def _logs_arguments(parser: MagicParser) -> None:
    parser.add_argument("name", help="the cluster")
    parser.add_argument("job", nargs="?", default="run", help="id or kind of a job: run (default), setup")
    parser.add_argument("--last", type=int, default=None, metavar="N", help="only the last N lines")


COMMANDS: dict[str, Command] = {
    "check": Command(
        "ask each cloud whether it can be used", _check, lambda p: p.add_argument("cloud", nargs="*", help="only these clouds")
    ),
    "plan": Command("%%nbprov plan: show what the YAML in the cell would try, and create nothing", _plan),
    "attempts": Command(
        "the attempts of the latest launch and why each failed", _attempts, lambda p: p.add_argument("name", nargs="?", default="")
    ),
    "blocks": Command(
        "what is blocked, why, for how long", _blocks, lambda p: p.add_argument("--clear", action="store_true", help="forget all blocks")
    ),
    "costs": Command("what every launch has cost so far", _costs),
    "log": Command("the provision log of the latest launch", _watch_provision_log, lambda p: p.add_argument("name", nargs="?", default="")),
    "jobs": Command("the jobs of a cluster: setup, run", _jobs, _one_cluster),
    "logs": Command("the output of a job", _logs, _logs_arguments),
    "autostop": Command("what the guards of a cluster see and will do", _autostop, _one_cluster),
    "stop": Command("stop clusters and keep their disks", _stop, _clusters_argument),
    "start": Command("start stopped clusters", _start, _clusters_argument),
    "down": Command("end clusters, and confirm it by the cloud's list", _down, _clusters_argument),
    "sweep": Command(
        "list machines of yours that the ledger does not know",
        _sweep,
        lambda p: p.add_argument("--end", action="store_true", help="end them, whatever their age"),
    ),
    "catalog": Command("the price catalogue: rows, age and source a cloud", _catalog),
}

LATER: dict[str, str] = {
    "sync": "until then workdir and file_mounts copy at launch",
    "tunnel": "until then %%on --bash reaches what listens on the machine",
    "history": "until then %nbprov costs and %nbprov attempts show the ledger",
    "dashboard": "until then %clusters is live",
    "watch": "until then run the %%provision cell again",
    "config": "until then %config Nbprov shows the options",
}
