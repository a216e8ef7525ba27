"""What a session knows that a machine needs which replaces a lost one: spec, files, values and secrets."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.api.spec_inputs import collect
from nbprov.model.errors import NbprovError
from nbprov.model.spec import Spec

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster, Node
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")


class Bringer:
    """Sets up machines that replace lost ones; see `nbprov.provisioning.replacement.replace_node.Bringing`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def why_not(self, row: ClusterRow) -> str:
        """Why a new machine could not be set up now; empty where it could."""
        from .cluster_reuse import is_set_up

        run_id = row.run_id
        run = next((r for r in self._session.runs.values() if r.run_id == run_id), None)
        setting_up = self._session.setting_up.get(run_id)
        if (run is not None and not run.done) or (setting_up is not None and not setting_up.done):
            return "the cluster is being set up"
        spec, _ = self._spec(run_id)
        if not is_set_up(self._session.engine.ledger, run_id, spec):
            return f"the cluster was never set up to its end: %nbprov setup {row.name} does so"
        try:
            self._values(run_id)
        except NbprovError as error:
            return f"this kernel does not know what its setup needs ({error.message}): run its cell again"
        return ""

    async def bring(self, live: LiveCluster, node: Node) -> None:
        """Set a node up. Raises where a step fails."""
        from nbprov.machines.setup.node_setup import set_up_node

        session, run_id = self._session, live.run_id
        (spec, folder), values = self._spec(run_id), self._values(run_id)
        number = node.instance.node

        def report(text: str) -> None:
            log.info("%s node %d: %s", live.name, number, session.hide_secrets(text))

        await set_up_node(
            *(live, node, spec, values, folder, session.engine.ledger, report),
            home=session.engine.home,
        )

    def _spec(self, run_id: str) -> tuple[Spec, str]:
        run = self._session.engine.ledger.runs.get(run_id)
        return self._session.asked.get(run_id) or (
            self._session.spec_of(run_id),
            run.folder if run is not None else "",
        )

    def _values(self, run_id: str) -> Environment:
        """The values that this kernel was given, else those of the spec and of the kernel's environment; the ledger has no secret.

        What Python is made from is not among them: the head has it.
        """
        spec, folder = self._spec(run_id)
        known = self._session.begun_here(run_id)
        if known is not None:
            return known.environment()
        if run_id not in self._session.asked:
            spec = replace(spec, secrets=dict.fromkeys(spec.secrets))
        return collect(replace(spec, python=None), {}, folder=folder).everything()
