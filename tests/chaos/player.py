"""Plays one story with a real engine, until the trap kills it.

Run as `python player.py ORDER.json`, or inside a kernel by `play`.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stories import REPLACING, ZONES
from trap import Trap, finder

from nbprov.clouds.base import Capabilities
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.provisioner import CAPABILITIES
from nbprov.model.blocks import Block
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.offers import Candidate, Plan
from nbprov.model.resources import Request
from nbprov.model.run_policies import Race, WaitPolicy
from nbprov.model.spec import Spec
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.reconcile import ReconcileReport, reconcile
from nbprov.provisioning.replacement import node_replacer, policy
from nbprov.provisioning.run.actions import partial_gang
from nbprov.provisioning.run.driver import RunDriver
from nbprov.spec import parse

LEASE_SECONDS = 0.8
NAME = "dev"
STEP_SECONDS = 60.0
LOCK_SECONDS = 0.5
LONGER_SECONDS = 60.0
HEDGE_SECONDS = 1.0
HOLD_SECONDS = 1.5
UNAVAILABLE = """
[[faults]]
do = "refuse"
code = "Unavailable"
message = "while a machine of {token} is replaced"
first = 2
"""
"""Creates whose refusal may pass are sent again."""


def capabilities(order: dict[str, Any]) -> Capabilities:
    """The local cloud's, with short waits.

    What a story spends its time on is the kill and what follows.
    """
    return replace(
        CAPABILITIES,
        settle=0.4,
        submit_seconds=2.0,
        accept_deadline=8.0,
        boot_deadline=15.0,
        ssh_deadline=order["ssh_deadline"],
        replayable=order["replayable"],
    )


def make_engine(order: dict[str, Any], trap: Trap | None) -> Engine:
    """The engine of one process of this story."""
    find = finder(Path(order["cloud"]), capabilities(order), trap, order["submit_timeout"])
    engine = Engine(
        Path(order["home"]),
        clouds=find,
        lease_seconds=LEASE_SECONDS,
        wrap_ledger=trap.ledger if trap else lambda ledger: ledger,
    )
    engine.runs.least_pause = 0.05
    policy.FIRST_PAUSE = node_replacer.NOT_NOW_PAUSE = 0.3
    engine.hooks.replan = lambda spec, blocks: _plan(order, engine, spec, blocks)
    return engine


POLICIES: dict[str, dict[str, Any]] = {
    "hedge": {"race": Race(2, HEDGE_SECONDS)},
    "wait": {"wait": WaitPolicy(3600.0)},
}
"""What the cell of a story says beside its resources."""


def _plan(
    order: dict[str, Any], engine: Engine, spec: Spec | None = None, blocks: Sequence[Block] = ()
) -> Plan:
    more = "engine: dask\n" if order["kind"] in REPLACING else ""
    plain = parse(
        f"resources: {{cloud: local, instance_type: small}}\nnum_nodes: {order['count']}\n{more}"
    )
    policy = POLICIES.get(order["kind"], {"race": Race(order["race"], 0.0)})
    spec = spec or replace(plain, **policy)
    now = engine.clock.now()
    offers = sorted(
        engine.cloud("local").adapter.offers() or (), key=lambda offer: ZONES.index(offer.zone)
    )
    candidates = [
        Candidate(offer, Request(), rank, order["count"], "chaos")
        for rank, offer in enumerate(offers)
    ]
    candidates = [c for c in candidates if not any(b.is_live(now) and b.matches(c) for b in blocks)]
    if not candidates:
        return Plan(spec, ())
    dearest = candidates[-1]
    if order["kind"] in ("dearer", "replace-dearer"):
        dearest = replace(dearest, offer=replace(dearest.offer, hourly=2 * dearest.hourly))
    return Plan(spec, candidates, dearest=dearest)


def play(order: dict[str, Any]) -> None:
    """Play the story; returns only where it was not cut."""
    partial_gang.HOLD_SECONDS = HOLD_SECONDS
    trap = Trap(order["transition"], order["when"], order["nth"], Path(order["mark"]))
    engine = make_engine(order, trap)
    if order["takes_up"]:
        engine.thread.call(reconcile(engine, ReconcileReport())).result(STEP_SECONDS)
        return
    plan = _plan(order, engine)
    driver = engine.prepare_run(NAME, plan.spec, plan)
    sent = _when(engine, driver, "sent", lambda: None)
    if order["cancel_at"]:
        _when(engine, driver, order["cancel_at"], driver.cancel)
    if order["kind"] == "dearer":
        _when(engine, driver, "unknown", lambda: _raise_prices(Path(order["cloud"])))
    if order["kind"] == "log-fails":
        driver.runlog.path.unlink()
        driver.runlog.path.mkdir()
    if order["kind"] == "locked":
        engine.ledger.store._connection.execute("PRAGMA busy_timeout = 20")
        _when(engine, driver, "intent", lambda: _lock(engine.ledger.store.path))
    engine.thread.call(engine.launch(driver, folder="")).result(STEP_SECONDS)
    if order["kind"] == "wait":
        engine.thread.call(driver.wait_longer(LONGER_SECONDS)).result(STEP_SECONDS)
        see_wait_out(engine, driver)
    if order["kind"] == "leave":
        sent.wait(STEP_SECONDS)
        engine.shut_down()
        return
    state = _finished(driver)
    if state is RunState.READY:
        _afterwards(order["kind"], engine, Path(order["cloud"]))


def see_wait_out(engine: Engine, driver: RunDriver) -> None:
    """Clear the blocks whenever the run rests, as a person does who knows that there is stock
    again; returns when it is over.
    """
    end = time.monotonic() + STEP_SECONDS
    while not driver.finished.done() and time.monotonic() < end:
        if driver.state is RunState.WAITING:
            engine.clear_blocks()
        concurrent.futures.wait([driver.finished], 0.05)


def _finished(driver: RunDriver) -> RunState | None:
    done, _ = concurrent.futures.wait([driver.finished], STEP_SECONDS)
    return driver.finished.result() if done else None


def _when(
    engine: Engine, driver: RunDriver, state: str, act: Callable[[], None]
) -> threading.Event:
    """Act once, soon after an attempt is in this state, as a person's button would; the event is
    set then.
    """
    seen = threading.Event()

    def look() -> None:
        if not seen.is_set() and any(
            a.state.value == state for a in driver.failover.attempts.values()
        ):
            seen.set()
            engine.thread.soon(act)

    engine.subscribe(look)
    return seen


def _raise_prices(cloud: Path) -> None:
    _change_market(cloud, lambda text: text.replace("hourly = 0.1\n", "hourly = 0.15\n"))


def _change_market(cloud: Path, change: Callable[[str], str]) -> None:
    market = cloud / "market.toml"
    before = market.read_text()
    if (text := change(before)) != before:
        draft = market.with_suffix(".new")
        draft.write_text(text)
        draft.replace(market)


def _lock(path: Path) -> None:
    """Hold the ledger for a while, as another process that is stuck in a write does."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(LOCK_SECONDS, other.close).start()


def _afterwards(kind: str, engine: Engine, cloud: Path) -> None:
    """What the person does with the cluster."""

    def do(work: Any) -> None:
        engine.thread.call(work).result(STEP_SECONDS)

    if kind in REPLACING:
        _take_back(kind, engine, cloud)
    if kind == "replace-stop":
        do(engine.lifecycle.stop(engine.cluster(NAME)))
    if kind == "stop-start":
        do(engine.lifecycle.stop(engine.cluster(NAME)))
        do(engine.lifecycle.start(engine.cluster(NAME)))
    if kind in ("stop-start", "down"):
        do(engine.lifecycle.down(engine.cluster(NAME)))


def _take_back(kind: str, engine: Engine, cloud: Path) -> None:
    """Let the cloud take a machine back; returns when another one is in its place, or for
    `replace-stop` asked for.
    """
    ledger, token = engine.ledger, engine.cluster(NAME).token
    lost = ledger.instances.members(token)[1].id
    if kind == "replace-dearer":
        # The message makes the entry a new one for the daemon, which counts how often each struck.
        _change_market(cloud, lambda text: text + UNAVAILABLE.format(token=token))
    DaemonClient(cloud).call("terminate", {"ids": [lost]}, timeout=15)

    def is_over() -> bool:
        if kind == "replace-stop":
            return bool(ledger.replacements.of_launch(token))
        return any(r.state is AttemptState.READY for r in ledger.replacements.of_launch(token))

    end = time.monotonic() + STEP_SECONDS
    while not is_over() and time.monotonic() < end:
        if kind == "replace-dearer" and ledger.replacements.of_launch(token):
            _raise_prices(cloud)
        time.sleep(0.02)


if __name__ == "__main__":
    play(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    os._exit(0)  # not cut: it ends without any tidying up all the same
