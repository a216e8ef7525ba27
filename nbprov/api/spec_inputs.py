"""Values that a spec leaves to its caller: `envs: {RUN_ID: null}` and `secrets: {TOKEN: null}`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.machines.files.source_checks import check_sources
from nbprov.machines.python.requirement_files import PythonSource, read_source
from nbprov.model.errors import UsageError
from nbprov.model.secret import Secret
from nbprov.model.spec import Spec

if TYPE_CHECKING:
    from nbprov.remote.agent.messages import Environment

Ask = Callable[[str, bool], str | None]
"""Asks a person for a value, by its name and whether to hide it; None where nobody can be asked."""


@dataclass(frozen=True, slots=True)
class SpecInputs:
    """The environment of `setup` and `run`. It is kept only in memory.

    Attributes
    ----------
    envs
        All of the spec's envs with their values.
    secrets
        Never shown.
    python
        What the Python environment is made from; None where the spec asks for none.
    """

    envs: Mapping[str, str]
    secrets: Mapping[str, Secret]
    python: PythonSource | None = None

    def everything(self) -> Environment:
        """Envs and secrets.

        Secrets stay `Secret` until they are written to a verified ssh connection.
        """
        return {**self.envs, **self.secrets}

    def plain(self) -> dict[str, str]:
        """The values that may be shown."""
        return dict(self.envs)


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run has of its caller, beside the spec.

    Attributes
    ----------
    folder
        What relative paths are relative to.
    outputs_to
        The folder for outputs.
    """

    given: SpecInputs
    folder: str
    outputs_to: str = ""


def ask_nobody(name: str, hidden: bool) -> str | None:
    """Ask nobody."""
    return None


def names_given(given: Mapping[str, str]) -> frozenset[str]:
    """The names that have a value without asking: the caller's and the kernel environment's."""
    return frozenset({*given, *os.environ})


def collect(
    spec: Spec, given: Mapping[str, str], ask: Ask = ask_nobody, folder: str = ""
) -> SpecInputs:
    """Find a value for every env and secret of a spec.

    The caller's value comes first, then the spec's, the kernel environment's, and a prompt. The
    files that `python` names are read now, relative to `folder`; those that `workdir` and
    `file_mounts` name must be there.

    Raises
    ------
    PythonFilesError, SyncError
        If one of these cannot be used.
    UsageError
        If values are missing, with their names, or a given name is not in the spec.
    """
    unknown = sorted(set(given) - set(spec.envs) - set(spec.secrets))
    if unknown:
        known = ", ".join([*spec.envs, *spec.secrets]) or "none"
        raise UsageError(
            f"the spec has no env called {', '.join(unknown)}",
            hint=f"its envs and secrets: {known}",
            code="env.unknown",
        )
    python = read_source(spec.python, Path(folder), spec.workdir)
    check_sources(spec, Path(folder))
    missing: list[str] = []

    def find(name: str, hidden: bool) -> str:
        value = given.get(name, os.environ.get(name))
        if value is None:
            value = ask(name, hidden)
        if value is None:
            missing.append(name)
            return ""
        return value

    envs = {
        name: find(name, False) if value is None or name in given else value
        for name, value in spec.envs.items()
    }
    secrets = {
        name: Secret(find(name, True)) if value is None or name in given else value
        for name, value in spec.secrets.items()
    }
    if missing:
        names = ", ".join(missing)
        raise UsageError(
            f"no value for {names}",
            hint=f"--env {missing[0]}=…, or set it in the kernel's environment",
            code="env.missing",
        )
    return SpecInputs(envs, secrets, python)


def filled_outputs(spec: Spec, given: Mapping[str, str]) -> Spec:
    """A spec whose `outputs` have the values of its variables, as far as they are known.

    Examples
    --------
    >>> from nbprov.model.sources import Mount
    >>> spec = Spec(outputs=(Mount("out/$RUN", "/data"),), envs={"RUN": "7"})
    >>> filled_outputs(spec, {}).outputs[0].target
    'out/7'
    """
    from nbprov.spec import fill_paths

    values = {name: value for name, value in spec.envs.items() if value is not None}
    return fill_paths(replace(spec, file_mounts=()), {**values, **given})


def found_again(spec: Spec) -> tuple[Environment, tuple[str, ...]]:
    """The values of a spec that an earlier kernel launched, and the names that have none.

    They are the spec's own, else those of this kernel's environment: the ledger has only the names
    of secrets.

    Examples
    --------
    >>> found_again(Spec(envs={"MODE": "fast"}, secrets={"NOWHERE_TO_BE_FOUND": None}))
    ({'MODE': 'fast'}, ('NOWHERE_TO_BE_FOUND',))
    """
    found: dict[str, str | Secret] = {
        name: value for name, value in spec.envs.items() if value is not None
    }
    found |= {name: value for name, value in spec.secrets.items() if value is not None}
    lacking = [name for name in (*spec.envs, *spec.secrets) if name not in found]
    found |= {
        name: Secret(os.environ[name]) if name in spec.secrets else os.environ[name]
        for name in lacking
        if name in os.environ
    }
    return found, tuple(name for name in lacking if name not in found)
