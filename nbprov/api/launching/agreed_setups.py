"""What somebody agreed to on a running cluster: its Launch, and set-ups that were begun since."""

from __future__ import annotations

from dataclasses import replace

from nbprov.api.context import Context, Proposal
from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec


def agreed_setups(context: Context, run_id: str) -> list[Proposal]:
    """The latest set-up that was agreed to, and then the launch, with the values that are known."""
    given = context.inputs.get(run_id)
    row = context.engine.ledger.runs.get(run_id)
    # The handle knows which secrets had literal values; the ledger has none of them.
    run = next((run for run in context.runs.values() if run.run_id == run_id), None)
    launched = context.spec_of(run_id) if run is None else run.driver.spec
    latest = Proposal(*context.wished(run_id), given)
    return [latest, Proposal(launched, "" if row is None else row.folder, given)]


def is_same_setup(one: Spec, other: Spec) -> bool:
    """Whether two specs ask for the same files, values, environment and commands.

    Values of secrets are not compared, since the ledger has none.
    """
    return _setup_part(one) == _setup_part(other)


def _setup_part(spec: Spec) -> Spec:
    return Spec(
        setup=spec.setup,
        run=spec.run,
        envs=dict(spec.envs),
        secrets=dict.fromkeys(spec.secrets),
        workdir=spec.workdir,
        file_mounts=tuple(replace(mount, origin=Origin("")) for mount in spec.file_mounts),
        python=spec.python,
        engine=spec.engine,
    )
