"""What launching again needs of an earlier launch, from its handle or from the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nbprov.api.context import Context
from nbprov.api.run import Run
from nbprov.api.spec_inputs import RunInputs, SpecInputs, collect, found_again
from nbprov.model.errors import NotFound, UsageError
from nbprov.model.failures import Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate
from nbprov.model.spec import Spec

NOT_KEPT = "values of --env are not kept after a restart: envs are those of the spec"


@dataclass(frozen=True, slots=True)
class EarlierLaunch:
    """A launch that may be launched again, whichever kernel began it.

    Attributes
    ----------
    consent
        The highest hourly price that was agreed to; None where nobody launched it.
    is_simulated
        Nobody was to pay for it.
    failures
        Each attempt that failed, by what it tried.
    notes
        What a person should know of launching it again, a line each.
    """

    spec: Spec
    name: str
    inputs: RunInputs
    consent: Micros | None
    is_simulated: bool
    failures: tuple[tuple[Candidate, Failure], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of_run(cls, run: Run) -> EarlierLaunch:
        """The launch of a handle of this session."""
        failures = tuple(
            (attempt.candidate, attempt.failure)
            for attempt in run.view().attempts
            if attempt.failure is not None
        )
        consent = run.driver.consent if run.launched else None
        return cls(run.spec, run.name, run.inputs, consent, run.plan.is_simulated, failures)

    @classmethod
    def of_ledger(cls, context: Context, run_id: str) -> EarlierLaunch:
        """A launch that an earlier kernel began, as the ledger has it.

        The ledger holds no values of secrets, and no others that a cell was given: they are those
        of the spec, else those of this kernel's environment.

        Raises
        ------
        UsageError
            If its spec cannot be read, or it needs a value that is not known here.
        """
        ledger = context.engine.ledger
        row = ledger.runs.get(run_id)
        if row is None:
            raise NotFound(f"no launch has the id {run_id}")
        if not context.can_read_spec(run_id):
            raise UsageError(
                f"the spec of {row.name} cannot be read by this release of nbprov",
                hint="run its %%provision cell again",
                code="run.unreadable",
            )
        spec = context.spec_of(run_id)
        given = context.inputs.get(run_id)
        is_given = given is not None
        if given is None:
            given = _found(replace(spec, secrets=dict.fromkeys(spec.secrets)), row.name, row.folder)
        launches = ledger.launches.attempts(run_id)
        failures = tuple(
            (launch.candidate, launch.failure) for launch in launches if launch.failure is not None
        )
        is_simulated = all(launch.candidate.offer.is_simulated for launch in launches)
        inputs = RunInputs(given, row.folder, row.outputs_to)
        notes = (NOT_KEPT,) if spec.envs and not is_given else ()
        return cls(spec, row.name, inputs, row.consent, is_simulated, failures, notes)


def _found(spec: Spec, name: str, folder: str) -> SpecInputs:
    _, lacking = found_again(spec)
    if lacking:
        values = ", ".join(lacking)
        raise UsageError(
            f"{name} was not launched: an earlier kernel had the value of {values}, and values are"
            " kept in memory only",
            hint="run its %%provision cell again, which is given it, or set it in this kernel's"
            f" environment: %env {lacking[0]}=…",
            code="env.not-kept",
        )
    return collect(spec, {}, folder=folder)
