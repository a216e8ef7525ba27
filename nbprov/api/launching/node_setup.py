"""The set-up of a machine that replaces a lost one: its spec, files, values and secrets."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.services.setups import SetupService, is_set_up
from nbprov.api.spec_inputs import collect
from nbprov.model.errors import NbprovError

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster, Node
    from nbprov.provisioning.replacement.policy import NotNow
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")


class NodeSetup:
    """Sets machines up that replace lost ones; the engine calls it as a hook."""

    def __init__(self, context: Context, setups: SetupService) -> None:
        self._context, self._setups = context, setups

    def why_not(self, row: ClusterRow) -> NotNow | None:
        """Why a new machine could not be set up now; None where it could."""
        from nbprov.provisioning.replacement.policy import NotNow, Obstacle

        run_id = row.run_id
        run = next((r for r in self._context.runs.values() if r.run_id == run_id), None)
        setup = self._setups.of_run(run_id)
        if (run is not None and not run.done) or (setup is not None and not setup.done):
            return NotNow(Obstacle.SETUP_RUNS, "the cluster is being set up")
        spec, _ = self._context.wished(run_id)
        if not is_set_up(self._context.engine.ledger, run_id, spec):
            return NotNow(
                Obstacle.NEVER_SET_UP,
                f"the cluster was never set up to its end: %nbprov setup {row.name} does so",
            )
        try:
            self._values(run_id)
        except NbprovError as error:
            return NotNow(
                Obstacle.VALUES_MISSING,
                f"this kernel does not know what its setup needs ({error.message}):"
                " run its cell again",
            )
        return None

    async def bring(self, live: LiveCluster, node: Node) -> None:
        """Set a node up. Raises where a step fails."""
        from nbprov.machines.setup.node_setup import set_up_node

        engine, run_id = self._context.engine, live.run_id
        (spec, folder), values = self._context.wished(run_id), self._values(run_id)
        number = node.instance.node

        def report(text: str) -> None:
            log.info("%s node %d: %s", live.name, number, self._context.mask(text))

        await set_up_node(
            *(live, node, spec, values, folder, engine.ledger, report), home=engine.home
        )

    def _values(self, run_id: str) -> Environment:
        """The values that this kernel was given, else those of the spec and of its environment.

        The ledger has no secret. The Python source is not among the values: the head has it.
        """
        inputs = self._context.inputs.get(run_id)
        if inputs is not None:
            return inputs.everything()
        spec, folder = self._context.wished(run_id)
        if run_id not in self._context.requested:
            spec = replace(spec, secrets=dict.fromkeys(spec.secrets))
        return collect(replace(spec, python=None), {}, folder=folder).everything()
