"""The engine of a session, and which clouds can be used."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.clouds import registry
from nbprov.clouds.base import CHECK_SECONDS, Capabilities
from nbprov.model.clock import Seconds
from nbprov.model.errors import NotFound
from nbprov.model.failures import Cause
from nbprov.model.launches import CheckResult
from nbprov.model.offers import Block, Plan
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for
from nbprov.runtime.worker_pool import WorkerPool

from .cloud_checks import Checks

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

    from .run import Run

log = logging.getLogger("nbprov.api")


class Standing(ABC):
    """What a session stands on: its engine, opened on first use, and what it knows of the clouds.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        The simulated `local` cloud enters every plan, not only those that name it.
    """

    def __init__(self, home: Path | None, *, demo: bool) -> None:
        self._home = home
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._making = threading.Lock()
        self._checks: Checks | None = None
        self.runs: dict[str, Run] = {}
        self.demo = demo

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        with self._opening:
            if self._engine is None:
                from nbprov.provisioning.engine import Engine

                self._engine = Engine(self._home)
                self._engine.replan = self._planned_again
            return self._engine

    def is_open_on(self, engine: Engine) -> bool:
        """Whether the session still works with this engine: it has not been closed, or opened anew, since."""
        return self._engine is engine

    @property
    def checks(self) -> Checks:
        """Which clouds can be used, as far as they were asked."""
        engine = self.engine
        with self._making:
            if self._checks is None:
                looks = WorkerPool("looks")
                self._checks = Checks(lambda name: _asked(engine, looks, name), engine.clock)
            return self._checks

    def close(self) -> None:
        """Give up leases and stop the engine's thread. Machines go on."""
        with self._opening:
            engine, self._engine = self._engine, None
            self._checks = None
        if engine is not None:
            engine.shut_down()

    # ------------------------------------------------------------ clouds and catalogue

    def check(
        self, clouds: Sequence[str] | None = None, *, fresh: bool = True
    ) -> list[CheckResult]:
        """Ask each cloud, in parallel, whether it can be used. At most 5 s each.

        Raises
        ------
        NotFound
            If a named cloud has no adapter.
        """
        names = list(clouds) if clouds is not None else list(registry.names())
        for name in names:
            registry.missing(name)
        ask = self.checks.anew if fresh else self.checks.at_hand
        return wait_for(self.engine.thread.call(ask(names)))

    def capabilities_at_hand(self, name: str) -> Capabilities | None:
        """What a cloud can do; None where it is not set up, which is found without loading its adapter, or cannot be loaded.

        Raises
        ------
        NotFound
            If it has no adapter.
        """
        return None if registry.missing(name) else self.capabilities_of(name)

    def capabilities_of(self, name: str) -> Capabilities | None:
        """What a cloud can do; None where its adapter cannot be loaded, which its check tells: the other clouds are none the worse.

        Raises
        ------
        NotFound
            If it has no adapter.
        """
        try:
            return self.engine.cloud(name).capabilities
        except NotFound:
            raise
        except Exception as error:
            log.info(
                "the adapter of %s cannot be loaded: %s: %s", name, type(error).__name__, error
            )
            return None

    def _enters_any_plan(self, name: str) -> bool:
        capabilities = self.capabilities_at_hand(name)
        return capabilities is None or not capabilities.named_only

    def usable_now(self) -> tuple[str, ...]:
        """The clouds that could be used when they were last asked. Asks nobody."""
        known = {name: self.checks.known(name) for name in registry.names()}
        return tuple(
            name for name, result in known.items() if result is not None and result.enabled
        )

    def without_adapter(self) -> tuple[str, ...]:
        """The clouds whose prices are known and which nothing can be launched on yet."""
        from nbprov.catalog import default_catalog

        return tuple(sorted(set(default_catalog().clouds()) - set(registry.names())))

    def why_not(self, *, seconds: Seconds) -> dict[str, str]:
        """Why each cloud of the catalogue that is not set up cannot be used, by name; clouds that do not answer so soon are left out."""
        from nbprov.planning import reason
        from nbprov.planning.lookup.enabled_clouds import NO_ADAPTER

        names = [n for n in registry.names() if self._enters_any_plan(n)]
        results = wait_for(
            self.engine.thread.call(self.checks.at_hand(names, first=seconds, again=0.0))
        )
        told = {
            r.cloud: reason(r)
            for r in results
            if not r.enabled and not (r.problem and r.problem.cause is Cause.TIMEOUT)
        }
        return {**dict.fromkeys(self.without_adapter(), NO_ADAPTER), **told}

    @abstractmethod
    def _planned_again(self, spec: Spec, blocks: Sequence[Block]) -> Plan:
        """The plan of a run's further pass, called in a worker thread."""


async def _asked(engine: Engine, looks: WorkerPool, name: str) -> CheckResult:
    """A cloud's check, without its adapter where it is not set up: a plan asks this of every cloud, for people without an account as well."""
    # In a worker: the files it looks for may lie on a drive that hangs.
    lacking = await looks.run(registry.missing, name, seconds=CHECK_SECONDS)
    return (
        CheckResult(name, enabled=False, problem=lacking)
        if lacking
        else await engine.cloud(name).check()
    )
