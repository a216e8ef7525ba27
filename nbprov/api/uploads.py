"""What a spec sends from this computer, with the values in its paths: for plans and launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.machines.files.output_targets import check_outputs, target_notes
from nbprov.machines.files.source_checks import check_sources
from nbprov.machines.files.upload_notes import environment_note, upload_notes
from nbprov.machines.python.requirement_files import read_source
from nbprov.model.errors import NbprovError
from nbprov.model.spec import Spec
from nbprov.model.text.plain import one_line

from .context import Proposal
from .spec_inputs import (
    SpecInputs,
    filled_outputs,
    inherited_names,
    known_envs,
    known_sources,
)

if TYPE_CHECKING:
    from nbprov.machines.files.output_targets import OutputFolders


def planned_files(
    spec: Spec, given: Mapping[str, str], outputs: OutputFolders
) -> tuple[tuple[str, ...], str]:
    """The lines on what a launch would write here and send, and why it would be refused.

    Paths have the values that are known without asking anybody; the others are named as they wait.
    """
    notes: list[str] = []
    refusal = ""
    try:
        filled = filled_outputs(spec, given)
        notes += target_notes(filled, outputs)
        known, waiting = known_sources(spec, known_envs(spec, given))
        check_sources(known, outputs.notebook)
        # A lock may be in a clone that is not known yet.
        is_known = known.workdir or not spec.workdir
        python = read_source(known.python, outputs.notebook, known.workdir) if is_known else None
        notes += upload_notes(known, outputs.notebook, python)
        notes += [f"{one_line(text)} is known once it has a value" for text in waiting]
        check_outputs(filled, outputs)
    except NbprovError as error:
        refusal = f"{error.message}; {error.hint}"
    return (*notes, *environment_note(inherited_names(spec, given))), refusal


def sent_notes(spec: Spec, given: SpecInputs, folder: str) -> tuple[str, ...]:
    """The lines on what a spec sends, with all of its values."""
    from nbprov.spec import fill_paths

    filled = fill_paths(spec, given.envs)
    lines = upload_notes(filled, Path(folder), given.python)
    return (*lines, *environment_note(given.inherited))


def unagreed_notes(
    spec: Spec, given: SpecInputs, folder: str, agreed: Sequence[Proposal]
) -> tuple[str, ...]:
    """The lines on what a spec sends that no set-up before it sent."""
    from nbprov.spec import fill_paths

    known = frozenset(line for before in agreed for line in _lines_of(before))
    open_before = {
        name
        for before in agreed
        for values in (before.spec.envs, before.spec.secrets)
        for name, value in values.items()
        if value is None
    }
    lines = upload_notes(fill_paths(spec, given.envs), Path(folder), given.python)
    inherited = [name for name in given.inherited if name not in open_before]
    return (*(line for line in lines if line not in known), *environment_note(inherited))


def _lines_of(before: Proposal) -> tuple[str, ...]:
    """The lines on what an earlier set-up sent, as far as it is known; never raises for a spec."""
    values = {} if before.given is None else before.given.envs
    lines: tuple[str, ...] = ()
    try:
        known, _ = known_sources(before.spec, known_envs(before.spec, values))
        lines = tuple(upload_notes(known, Path(before.folder)))
        python = read_source(known.python, Path(before.folder), known.workdir)
    except NbprovError:
        return lines
    return tuple(upload_notes(known, Path(before.folder), python))
