"""Which clouds can be used, and what each can do."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nbprov.api.cloud_checks import CloudChecks
from nbprov.api.context import Context, EngineBound
from nbprov.api.name_list import name_list
from nbprov.api.steps import Steps, result
from nbprov.clouds import registry
from nbprov.clouds.base import CHECK_SECONDS, Capabilities
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import Cause
from nbprov.model.launches import CheckResult
from nbprov.runtime.worker_pool import WorkerPool

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.api")


class CloudService:
    """Checks of clouds, and their capabilities."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._checks = EngineBound(context, _checks_of)

    def check(
        self,
        clouds: Sequence[str] | str | None = None,
        *,
        fresh: bool = True,
        doubted: Collection[str] = (),
    ) -> Steps[list[CheckResult]]:
        """Ask each cloud, in parallel, whether it can be used. Takes at most 5 s.

        Parameters
        ----------
        clouds
            Their names; all clouds by default.
        fresh
            Ask now. Otherwise answers of the last minutes count.
        doubted
            Clouds that are asked again sooner, since a create was refused after their last check.

        Raises
        ------
        NotFound
            If a named cloud has no adapter.

        Examples
        --------
        >>> [told.cloud for told in nbprov.check() if told.enabled]  # doctest: +SKIP
        ['aws', 'lambda', 'local']
        """
        names = [*(registry.names() if clouds is None else name_list(clouds, "clouds"))]
        for name in names:
            registry.missing(name)
        checks = self._checks.get()
        asked = checks.anew(names) if fresh else checks.at_hand(names, doubted=doubted)
        return (yield from result(self._context.engine.thread.call(asked)))

    def capabilities_at_hand(self, name: str) -> Capabilities | None:
        """What a cloud can do; None where it is not set up or its adapter cannot be loaded.

        Whether it is set up is found without loading its adapter.

        Raises
        ------
        NotFound
            If it has no adapter.
        """
        return None if registry.missing(name) else self.capabilities_of(name)

    def capabilities_of(self, name: str) -> Capabilities | None:
        """What a cloud can do; None where its adapter cannot be loaded, as its check tells.

        Raises
        ------
        NotFound
            If it has no adapter.
        """
        try:
            return self._context.engine.cloud(name).capabilities
        except NotFound:
            raise
        except Exception as error:  # one broken adapter must not keep the other clouds out
            log.info(
                "the adapter of %s cannot be loaded: %s: %s", name, type(error).__name__, error
            )
            return None

    def enters_any_plan(self, name: str) -> bool:
        """Whether a cloud may stand in plans that do not name it."""
        capabilities = self.capabilities_at_hand(name)
        return capabilities is None or not capabilities.named_only

    def with_stock_probe(self) -> list[str]:
        """The clouds whose adapters can ask for stock, whether they are set up or not."""
        told = {name: self.capabilities_at_hand(name) for name in registry.names()}
        return [name for name, can in told.items() if can is not None and can.stock_probe]

    def known(self, name: str) -> CheckResult | None:
        """The last check of a cloud; None where it was not asked yet. Asks nobody."""
        return self._checks.get().known(name)

    def silent_since(self, name: str) -> Instant:
        """Since when a cloud has been asked without an answer; now, if it has just answered."""
        since = self._checks.get().silent_since(name)
        return self._context.engine.clock.now() if since is None else since

    def usable_now(self) -> tuple[str, ...]:
        """The clouds that could be used when they were last asked. Asks nobody."""
        known = {name: self.known(name) for name in registry.names()}
        return tuple(name for name, told in known.items() if told is not None and told.enabled)

    def accounts_now(self) -> dict[str, str]:
        """The account in use by cloud, where a check has told it. Asks nobody."""
        known = {name: self.known(name) for name in registry.names()}
        return {n: told.account for n, told in known.items() if told is not None and told.account}

    def without_adapter(self) -> tuple[str, ...]:
        """The clouds whose prices are known and which nothing can be launched on yet."""
        from nbprov.catalog import default_catalog

        return tuple(sorted(set(default_catalog().clouds()) - set(registry.names())))

    def why_not(self, *, seconds: Seconds) -> Steps[dict[str, str]]:
        """Why each cloud of the catalogue that is not set up cannot be used, by name.

        Clouds that do not answer within `seconds` are left out.
        """
        from nbprov.planning import reason
        from nbprov.planning.lookup.enabled_clouds import NO_ADAPTER

        names = [name for name in registry.names() if self.enters_any_plan(name)]
        asked = self._checks.get().at_hand(names, first=seconds, again=0.0)
        results = yield from result(self._context.engine.thread.call(asked))
        told = {
            r.cloud: reason(r)
            for r in results
            if not r.enabled and not (r.problem and r.problem.cause is Cause.TIMEOUT)
        }
        return {**dict.fromkeys(self.without_adapter(), NO_ADAPTER), **told}


def _checks_of(engine: Engine) -> CloudChecks:
    workers = WorkerPool("looks")

    async def ask(name: str) -> CheckResult:
        # Without its adapter where it is not set up: every plan asks every cloud. In a worker,
        # since the files that are looked for may lie on a drive that hangs.
        lacking = await workers.run(registry.missing, name, seconds=CHECK_SECONDS)
        if lacking:
            return CheckResult(name, enabled=False, problem=lacking)
        return await engine.cloud(name).check()

    def passed(told: CheckResult, begun: Instant) -> None:
        try:
            engine.ledger.blocks.end_checked(told.cloud, told.account, begun)
        except NbprovError as error:  # they end by themselves within the hour
            log.warning("blocks of %s could not be ended: %s", told.cloud, error.message)

    return CloudChecks(ask, engine.clock, passed)
