"""What somebody agreed to on a running cluster: its Launch, and set-ups that were begun since."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from nbprov.api.context import Context, Proposal
from nbprov.model.remarks import Origin
from nbprov.model.sources import Repository, SourceKind
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


def anchored(spec: Spec, folder: str) -> Spec:
    """A spec whose relative local sources are below a folder, wherever it is read.

    Examples
    --------
    >>> anchored(Spec(workdir="code"), "/nb").workdir, anchored(Spec(workdir="~/x"), "/nb").workdir
    ('/nb/code', '~/x')
    """

    def whole(text: str) -> str:
        # What a variable stands for is not known here; it may be a bucket.
        is_whole = not text or text.startswith(("~", "$")) or PurePath(text).is_absolute()
        return text if is_whole else str(PurePath(folder.replace("$", "$$"), text))

    python, workdir = spec.python, spec.workdir
    if python is not None:
        # Beside a repository a lock is its own.
        lock = python.lock if isinstance(workdir, Repository) else whole(python.lock)
        python = replace(python, file=whole(python.file), lock=lock)
    return replace(
        spec,
        workdir=workdir if isinstance(workdir, Repository) else whole(workdir),
        file_mounts=tuple(
            replace(mount, source=whole(mount.source)) if mount.kind is SourceKind.LOCAL else mount
            for mount in spec.file_mounts
        ),
        python=python,
    )


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
