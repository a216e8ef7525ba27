"""A real `local` cloud for one test, and the engines that use it."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.provisioner import CAPABILITIES, LocalCloud
from nbprov.model.clock import Clock
from nbprov.model.clusters import RunState
from nbprov.model.launches import InstanceState
from nbprov.model.offers import Candidate, Plan
from nbprov.model.run_policies import Race
from nbprov.model.spec import Spec
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.reconcile import ReconcileReport, reconcile
from nbprov.provisioning.run.driver import RunDriver
from nbprov.runtime.waiting import wait_for
from nbprov.spec import parse

WAIT_SECONDS = 120.0
"""Long enough that it is reached only if what the test waits for never happens."""
LEASE_SECONDS = 3.0
"""Longer than a busy machine delays a kernel's thread.

A kernel that lost its lease merely through load would upset any test.
"""
PAUSE = 0.01

MARKET = """
account = "test"
[timing]
accept = 0.02
boot = 0.02
end = 0.02
gone_shown = 60
idle_exit = 60
[[regions]]
name = "here"
zones = ["here-a", "here-b"]
[[regions]]
name = "there"
zones = ["there-a"]
price = 1.5
[[types]]
name = "small"
hourly = 3.6
vcpus = 2
memory_gib = 4
"""


class EngineWorld:
    """One cloud, one home, and as many engines (kernels) as a test wants."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "cloud"
        self.folder.mkdir(parents=True, mode=0o700)
        self.engines: list[Engine] = []
        self._numbers = itertools.count(1)
        self.market()

    # ------------------------------------------------------------ the cloud

    def market(self, more: str = "", base: str = MARKET) -> None:
        """Set the market: the plain one and more."""
        draft = self.folder / "market.new"
        draft.write_text(base + more, encoding="utf-8")
        draft.replace(self.folder / "market.toml")

    def fault(self, **entry: Any) -> str:
        """A fault as the market file has it."""
        entry.setdefault("message", f"fault {next(self._numbers)}")
        return "[[faults]]\n" + "".join(
            f'{k} = "{v}"\n' if isinstance(v, str) else f"{k} = {v}\n" for k, v in entry.items()
        )

    def alive(self) -> list[dict[str, Any]]:
        """The machines that are not gone, as the daemon says."""
        owner = self.engines[0].ledger.owner
        listed = DaemonClient(self.folder).call("list", {"owner": owner}, timeout=WAIT_SECONDS)
        return [m for m in listed if m["state"] != InstanceState.GONE.value]

    # ------------------------------------------------------------ kernels

    def engine(
        self,
        kind: Callable[[Path], LocalCloud] = LocalCloud,
        *,
        clock: Clock | None = None,
        **changes: Any,
    ) -> Engine:
        """The engine of another kernel on the same home and cloud.

        `kind` makes its adapter, and `changes` replace capabilities.
        """
        cloud = kind(self.folder)
        cloud.capabilities = replace(
            CAPABILITIES, **({"settle": 0.3, "submit_seconds": 30.0} | changes)
        )
        made = Engine(self.home, clouds=lambda _: cloud, clock=clock, lease_seconds=LEASE_SECONDS)
        self.engines.append(made)
        return made

    def plan(
        self, engine: Engine, text: str = "", *, nodes: int = 1, max_hourly: int | None = None
    ) -> tuple[Spec, Plan]:
        """A plan over the zones in the order of their names."""
        spec = parse(
            f"resources: {{cloud: local, instance_type: small}}\nnum_nodes: {nodes}\n{text}"
        )
        request = replace(spec.requests[0], max_hourly=max_hourly)
        offers = sorted(engine.cloud("local").adapter.offers() or (), key=lambda offer: offer.zone)
        candidates = [
            Candidate(offer, request, rank, nodes, "test") for rank, offer in enumerate(offers)
        ]
        return spec, Plan(spec, candidates, dearest=max(candidates, key=lambda c: c.hourly))

    def prepare(
        self,
        engine: Engine,
        name: str = "dev",
        *,
        race: int = 1,
        hedge: float = 0.0,
        **planned: Any,
    ) -> RunDriver:
        """A run that waits for its launch."""
        spec, plan = self.plan(engine, **planned)
        spec = replace(spec, race=Race(race, hedge))
        return engine.prepare_run(name, spec, replace(plan, spec=spec))

    def launch(self, engine: Engine, driver: RunDriver) -> RunDriver:
        """Launch a run; returns as soon as it is under way."""
        self.do(engine, engine.launch(driver, folder=""))
        return driver

    def finish(self, driver: RunDriver) -> RunState:
        """Wait until nothing of a run is pending."""
        return wait_for(driver.finished, WAIT_SECONDS)

    def do(self, engine: Engine, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on an engine's thread and wait for it."""
        return wait_for(engine.thread.call(work), WAIT_SECONDS)

    def take_up(self, engine: Engine) -> str:
        """Reconcile as loading the extension does; return the report."""
        report = ReconcileReport()
        self.do(engine, reconcile(engine, report))
        return str(report)

    def abandon(self, engine: Engine) -> None:
        """Leave an engine as a kernel does that was killed a while ago.

        Its leases stay in the ledger, and they have lapsed.
        """
        engine.thread.stop()
        ledger = engine.ledger
        with ledger.store.transaction() as db:
            db.execute(
                "UPDATE runs SET lease_renewed = ? WHERE lease_holder = ?",
                (ledger.clock.elapsed() - ledger.lease_seconds, ledger.holder),
            )
        ledger.close()

    @staticmethod
    def fill(engine: Engine, *, is_full: bool = True) -> None:
        """Have SQLite refuse an engine's writes, as where its disk is full; or take them again."""
        engine.ledger.store._connection.execute(f"PRAGMA query_only = {int(is_full)}")

    @staticmethod
    def set_ahead(engine: Engine, seconds: float) -> None:
        """Have an engine's clock run ahead, as that of a kernel which woke up later."""
        clock, elapsed = engine.clock, engine.clock.elapsed
        vars(clock)["elapsed"] = lambda: elapsed() + seconds

    @staticmethod
    def until(condition: Callable[[], Any], what: str) -> Any:
        """Wait until a condition holds, and fail if it never does."""
        end = time.monotonic() + WAIT_SECONDS
        while not (found := condition()):
            assert time.monotonic() < end, f"not in time: {what}"
            time.sleep(PAUSE)
        return found

    def close(self) -> None:
        """End everything."""
        for engine in self.engines:
            engine.shut_down()
        client = DaemonClient(self.folder)
        with contextlib.suppress(OSError):
            pid = client.call("describe", timeout=WAIT_SECONDS, start=False)["pid"]
            client.call("end_all", timeout=WAIT_SECONDS, start=False)
            os.kill(
                pid, signal.SIGKILL
            )  # nothing runs any more, and its orderly end takes a second
