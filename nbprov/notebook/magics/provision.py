"""The `%%provision` cell."""

from __future__ import annotations

import argparse
import concurrent.futures
import keyword
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from nbprov.api import Cluster, Run, Session, Terms, session
from nbprov.api.reports import is_simulated
from nbprov.api.services.stock import LAUNCH_GRACE
from nbprov.api.spec_inputs import names_given
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, RunState, RunView
from nbprov.model.errors import Interrupted, UsageError
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.notebook.arguments import environment
from nbprov.notebook.panels import (
    ClustersTable,
    ClustersView,
    LiveDisplay,
    PriceTable,
    RunPanel,
    frontend,
)
from nbprov.notebook.panels.actions import Buttons
from nbprov.notebook.panels.displays import Follower, Line, print_lines, say, say_remarks, show
from nbprov.notebook.rendering import TableData
from nbprov.notebook.rendering.formatting import cost_words
from nbprov.notebook.rendering.prices import consent_words, plan_facts
from nbprov.remote.agent.messages import plain_environment
from nbprov.runtime.waiting import SLICE

from .prices import say_problems
from .setup_display import follow_setting_up

BODY_LINE = 2
"""The number of a cell's first line below its magic, as an editor counts."""
TRY_RELAX = "%%nbprov plan --relax says what one constraint less would open"
PLAN_ROWS = 5_000
"""Candidates of a plan that go to the browser: each is put into words of its own."""


def provision_cell(shell: Any, arguments: argparse.Namespace, text: str, *, hedge: Seconds) -> None:
    """Plan the cell's spec, show the panel, and launch where that was agreed to.

    The panel is the output, and the handle is the variable named like the cluster; it is there however the cell ends.
    """
    here = session()
    env = plain_environment(environment(arguments.env, "%%provision"))
    spec = read_cell(here, shell, text, ignore=arguments.ignore, given=env)
    if arguments.on_setup_failure:
        spec = replace(spec, on_setup_failure=arguments.on_setup_failure)
    if arguments.dry_run:
        title = f"plan of {here.name_of(spec, arguments.name)}; nothing is created"
        if show_plan(here, spec, title, race=arguments.race, agreed=arguments.yes).chosen is None:
            print(TRY_RELAX)
        return
    result = here.provision(
        spec,
        arguments.name,
        race=arguments.race,
        hedge=hedge,
        agreed=arguments.yes,
        env=env,
        ask=asking(shell),
        say=say,
        replace=arguments.replace,
    )
    # One that is to take a cluster's place is called otherwise until then.
    _store(shell, result, here.name_of(spec, arguments.name))
    if isinstance(result, Cluster):
        _show_existing(result, wait=arguments.wait)
        return
    here.stock.order_behind(result)
    try:
        _launch(shell, result, arguments)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise _interrupted(result) from None


def _launch(shell: Any, run: Run, arguments: argparse.Namespace) -> None:
    if run.state is RunState.READY:
        print(f"{run.name} runs and is being set up already; this panel follows it")
    elif run.state is RunState.WAITING:
        print(f"{run.name} waits for stock already; this panel follows it")
    elif run.is_under_way:
        print(f"{run.name} is being launched already; this panel follows it")
    else:
        run.on_interrupt = arguments.on_interrupt
    if run.error is not None:
        raise run.error
    if frontend.current() is frontend.Host.WIDGETS:
        _launch_with_buttons(run, arguments)
    else:
        _launch_and_wait(shell, run, arguments)


def _launch_with_buttons(run: Run, arguments: argparse.Namespace) -> None:
    # Shown at once: what clouds say of their stock fills in, and orders the places, when it comes.
    display = _show_run(run)
    if arguments.yes:
        session().stock.order(run, LAUNCH_GRACE)
        _agree(run)
    if arguments.wait:
        if not run.launched:
            _wait_for_press(run)
        _wait(run, display)


def _launch_and_wait(shell: Any, run: Run, arguments: argparse.Namespace) -> None:
    """Where there are no buttons. The kernel may end with this cell, so it is seen through."""
    is_asked = can_ask(shell) and not arguments.yes
    session().stock.order(run, STOCK_SECONDS if is_asked else LAUNCH_GRACE)
    if can_ask(shell):
        display = _show_run(run)
        if arguments.yes:
            _agree(run)
        elif not (run.launched or _asked(run)):
            return
        run.launch()
    else:
        # Launched before it is shown: nobody is there whom a panel should tell that it waits.
        if not run.launched and not arguments.yes:
            _refuse_without_consent(run)
        if arguments.yes:
            _agree(run)
        run.launch()
        display = _show_run(run)
    _wait(run, display)


def _agree(run: Run) -> None:
    """Launch, and say what --yes agreed to."""
    if not run.launched:
        print(
            f"{run.name}: agreed to {_most(run)}{'; simulated, you pay $0' if _is_simulated(run) else ''}"
        )
    run.launch()


def _is_simulated(run: Run) -> bool:
    return run.plan.chosen is not None and is_simulated(run.plan.chosen.offer)


def _asked(run: Run) -> bool:
    answer = input(f"launch {run.name}? It may take {_most(run)}. [y/N] ")
    if answer.strip().lower() in ("y", "yes"):
        return True
    print(f"{run.name}: not launched; {variable_of(run.name)}.launch() does it later")
    return False


def _most(run: Run) -> str:
    return consent_words(run.plan, run.race) or "nothing"


def _refuse_without_consent(run: Run) -> None:
    """Nobody can be asked, so it must be agreed to in the cell, unless nobody pays for any candidate.

    Raises
    ------
    UsageError
        If it costs money.
    """
    beyond = run.driver.passed_over
    if beyond:
        raise UsageError(
            f"{run.name} may take {_most(run)}; for {beyond:,} dearer place{'s' if beyond > 1 else ''} confirm_above wants to be asked,"
            " and nobody is here",
            hint="%%provision --yes agrees to all that the spec's caps allow; without confirm_above the caps alone decide",
            code="run.needs-consent",
        )
    if all(is_simulated(candidate.offer) for candidate in run.plan.candidates):
        return
    raise UsageError(
        f"{run.name} may take {_most(run)}, and nobody is here to press Launch",
        hint="%%provision --yes agrees to it; max_hourly_cost and budget in the spec cap it",
        code="run.needs-consent",
    )


def can_ask(shell: Any) -> bool:
    """Whether a question would reach a person: a notebook that somebody looks at, or a terminal."""
    return (
        frontend.is_interactive()
        if hasattr(shell, "kernel")
        else sys.stdin is not None and sys.stdin.isatty()
    )


def read_cell(
    here: Session,
    shell: Any,
    text: str,
    *,
    ignore: Sequence[str],
    given: Mapping[str, str] | None = None,
) -> Spec:
    """The spec of a cell, `$name` in it taken from the notebook; what is worth saying of it, and what was put in, is printed."""
    spec = here.parse(
        text,
        ignore=ignore,
        first_line=BODY_LINE,
        variables=shell.user_ns,
        given=names_given(given or {}),
    )
    say_remarks(spec)
    say_problems(here.catalog())
    return spec


def show_plan(
    here: Session,
    spec: Spec,
    title: str,
    *,
    race: int | None = None,
    agreed: bool = False,
    assume: Sequence[str] = (),
) -> Plan:
    """Show what a spec would try, what Launch would agree to, how the run would go, and what was left out and why.

    A live table is shown at once and put in order by what clouds say of their stock, seconds later; where nothing can be renewed that comes first.
    """
    terms = here.terms(here.plan(spec, assume=assume), race=race, agreed=agreed)
    is_live = frontend.current() is frontend.Host.WIDGETS
    display = show(_plan_table(terms, title)) if is_live else None
    if not assume and here.stock.ask(terms.plan).stock:
        terms = here.terms(here.planned(spec), race=race, agreed=agreed)
        if display is not None:
            display.update(_plan_table_data(terms))
            display.freeze()
    if display is None:
        show(_plan_table(terms, title))
    if assume:
        print(
            f"as if set up: {', '.join(assume)}; a launch takes only what %nbprov check shows as enabled"
        )
    for line in plan_lines(terms):
        print(line)
    return terms.plan


def _plan_table(terms: Terms, title: str) -> PriceTable:
    return PriceTable(_plan_table_data(terms), title=title, now=time.time())


def _plan_table_data(terms: Terms) -> TableData:
    return TableData.from_plan(terms.plan, limit=PLAN_ROWS)


def plan_lines(terms: Terms) -> list[str]:
    """What is said under a plan's table."""
    plan = terms.plan
    facts = plan_facts(plan, terms.race)
    lines = [facts.headline] if plan.chosen is not None else []
    lines += (
        [line for line in (facts.consent, f"guards: {facts.guards}") if line]
        if plan.chosen is not None
        else []
    )
    lines += terms.notes if plan.chosen is not None else ()
    lines += [f"launch would be refused: {terms.refusal}"] if terms.refusal else []
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"left out: {d.count:,} offers: {d.words}" for d in plan.dropped]
    return [_brief(line, plan) for line in lines]


def _brief(line: str, plan: Plan) -> str:
    """A line without why clouds are not set up: the table, which shows what they would offer, says that at its foot."""
    for one in plan.unusable:
        line = line.replace(f"not set up: {one.reason}", "not set up")
    return line


def variable_of(name: str) -> str:
    """The variable that holds the handle of a cluster.

    Examples
    --------
    >>> variable_of("dev"), variable_of("my-gpu.2"), variable_of("8gpus"), variable_of("class")
    ('dev', 'my_gpu_2', '_8gpus', 'class_')
    """
    made = "".join(c if c.isalnum() else "_" for c in name)
    made = f"_{made}" if made[:1].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) else made


def _store(shell: Any, result: Run | Cluster, name: str) -> None:
    variable = variable_of(name)
    shell.user_ns[variable] = result
    if variable != result.name:
        print(f"the handle of {result.name} is the variable {variable}")


def _nobody(name: str, hidden: bool) -> str | None:
    return None


def asking(shell: Any) -> Callable[[str, bool], str | None]:
    """How a person is asked for a value here."""
    return _prompt if can_ask(shell) else _nobody


def _prompt(name: str, hidden: bool) -> str | None:
    from getpass import getpass

    from IPython.core.error import StdinNotImplementedError

    try:
        return getpass(f"{name}: ") if hidden else input(f"{name}: ")
    except (StdinNotImplementedError, EOFError):
        return None  # some front ends ask nobody


# ---------------------------------------------------------------- what is there already


def _show_existing(cluster: Cluster, *, wait: bool) -> None:
    view = cluster.view()
    if cluster.was_started:
        print(f"{cluster.name} was stopped and fits: it is started again")
        for line in cluster.restored():
            print(f"  {line}")
    elif cluster.setting_up is None:
        print(f"{cluster.name} is {view.state.value} and fits: nothing was launched")
    for remark in cluster.remarks:
        print(remark)
    show_clusters([view])
    if cluster.setting_up is not None:
        follow_setting_up(
            cluster.name,
            cluster.setting_up,
            wait=wait or frontend.current() is not frontend.Host.WIDGETS,
        )


def show_clusters(views: Any, snapshot: Callable[[], Any] | None = None) -> None:
    """A clusters table whose buttons act; live where there is a way to look again."""
    buttons = Buttons()
    panel = ClustersTable(views, on_stop=buttons.stop, on_start=buttons.start, on_down=buttons.down)
    buttons.panel = panel
    display = show(panel)
    if snapshot is not None:
        engine = session().engine
        engine.thread.soon(engine.lifecycle.watch)
        Follower(display, snapshot, _clusters_stage, _all_ended, engine)


def _clusters_stage(view: ClustersView) -> Hashable:
    return tuple((c.cluster_id, c.name, c.state, c.reason) for c in view.clusters)


def _all_ended(view: ClustersView) -> bool:
    return all(c.state is ClusterState.ENDED for c in view.clusters)


# ---------------------------------------------------------------- a run


def _show_run(run: Run) -> LiveDisplay[Any]:
    buttons = Buttons()
    panel = RunPanel(
        run.view(), on_launch=run.launch_soon, on_cancel=run.cancel, on_down=buttons.down
    )
    buttons.panel = panel
    display: LiveDisplay[Any] = show(panel)
    follower = Follower(
        display,
        run.view,
        lambda view: _run_stage(run, view),
        lambda view: _run_is_over(run, view),
        session().engine,
    )
    run.settled_future.add_done_callback(lambda _: follower.changed())
    if run.plan is not panel.view.plan:
        follower.changed()  # put in another order after the panel was drawn, and before anybody followed it
    return display


def _run_stage(run: Run, view: RunView) -> Hashable | None:
    if run.launched and not run.done and view.state is not RunState.WAITING:
        return None
    passes = view.waiting.passes if view.waiting is not None else 0
    pending = sum(not a.state.is_final for a in view.attempts)
    cluster = view.cluster
    # A plan that stock has put in another order is another plan, also to who opens the notebook later.
    return (
        view.state,
        passes,
        view.needs_launch,
        view.error,
        pending,
        view.plan.made_at,
        cluster and (cluster.state, cluster.reason),
    )


def _run_is_over(run: Run, view: RunView) -> bool:
    return (
        run.done
        and not run.is_under_way
        and (view.cluster is None or view.cluster.state is ClusterState.ENDED)
    )


def _wait(run: Run, display: LiveDisplay[Any]) -> None:
    """Block until the run is set up, printing what changes where no panel shows it."""
    # Losers of a race are seen out too where the kernel may end with this cell.
    while not run.done or (run.is_under_way and display.where is not frontend.Host.WIDGETS):
        time.sleep(SLICE)
        print_lines(display)
    display.update(run.view())
    print_lines(display)
    run.wait()
    if run.replaces:
        print(f"{run.name} is this one now; the one before it is being ended")


def _wait_for_press(run: Run) -> None:
    if version("ipykernel").split(".")[0] == "6":
        raise UsageError(
            "with ipykernel 6 no button can be pressed while a cell runs",
            hint="%%provision --wait --yes launches at once; without --wait the cell returns and Launch can be pressed",
            code="run.cannot-press",
        )
    while not run.launched and not run.done:
        time.sleep(SLICE)


def _interrupted(run: Run) -> Interrupted:
    is_cancelled = run.cancels_on_interrupt
    error = run.interrupt()
    if not is_cancelled:
        return error
    line = Line(error.message)
    ledger = session().engine.ledger

    def settled(future: Any) -> None:
        line.renew(
            _how_it_settled(
                run,
                future,
                lambda: cost_words(ledger.prices.cost(run.run_id), simulated=_is_simulated(run)),
            )
        )

    run.settled_future.add_done_callback(settled)
    return Interrupted(f"interrupted: {run.name} is cancelled")


def _how_it_settled(
    run: Run, future: concurrent.futures.Future[RunState], cost: Callable[[], str]
) -> str:
    """What became of a cancelled launch, by what it really ended in."""
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or error is not None:
        return f"{run.name}: not settled: {error or 'nobody waits for it any more'}; %clusters shows what there is"
    state = future.result()
    if state is RunState.READY:
        return f"{run.name}: it was ready before it could be cancelled; %nbprov down {run.name} ends it"
    if state not in (RunState.CANCELLED, RunState.FAILED):
        return f"{run.name}: not settled: {run.view().message or state.value}; %clusters shows what there is"
    return f"{run.name}: cancelled; everything is confirmed gone; it cost {cost()}"
