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
from nbprov.model.sources import Repository
from nbprov.model.spec import Spec
from nbprov.model.text.variable_values import MOST_BYTES_TOGETHER, size_together, why_unfit

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
    inherited
        Names whose values are of this kernel's environment.
    """

    envs: Mapping[str, str]
    secrets: Mapping[str, Secret]
    python: PythonSource | None = None
    inherited: tuple[str, ...] = ()

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
    `file_mounts` name, with the values in them, must be there.

    Raises
    ------
    PythonFilesError, SyncError, UnusablePath
        If one of these cannot be used.
    SpecError
        If a source is none with the values in it.
    UsageError
        If values are missing, with their names, a given name is not in the spec, or a process on a
        machine cannot be given a value.
    """
    from nbprov.spec import fill_paths

    _check_names(spec, given)
    # Nobody is asked for values of a cell that cannot be used anyhow.
    python = read_source(spec.python, Path(folder), spec.workdir)
    check_sources(known_sources(spec, known_envs(spec, given))[0], Path(folder))
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
    check_sizes({**envs, **secrets})
    filled = fill_paths(spec, envs)
    check_sources(filled, Path(folder))
    if isinstance(filled.workdir, Repository):
        python = read_source(spec.python, Path(folder), filled.workdir)
    return SpecInputs(envs, secrets, python, inherited_names(spec, given))


def _check_names(spec: Spec, given: Mapping[str, str]) -> None:
    unknown = sorted(set(given) - set(spec.envs) - set(spec.secrets))
    if unknown:
        known = ", ".join([*spec.envs, *spec.secrets]) or "none"
        raise UsageError(
            f"the spec has no env called {', '.join(unknown)}",
            hint=f"its envs and secrets: {known}",
            code="env.unknown",
        )


def check_sizes(values: Environment) -> None:
    """Check that a process on a machine can be given these variables.

    Raises
    ------
    UsageError
        With the code `env.unfit`, naming the variable and the limit, but no value.
    """
    from nbprov.remote.agent.messages import plain_environment

    texts = plain_environment(values)
    for name, text in texts.items():
        why = why_unfit(name, text)
        if why:
            raise UsageError(
                f"the value of {name} {why}",
                hint="put it into a file below workdir or file_mounts, and name the file instead",
                code="env.unfit",
            )
    if size_together(texts) > MOST_BYTES_TOGETHER:
        raise UsageError(
            f"envs and secrets have {size_together(texts):,} bytes together; a process takes"
            f" {MOST_BYTES_TOGETHER:,}",
            hint="put data into files below workdir or file_mounts",
            code="env.unfit",
        )


def read_again(spec: Spec, given: SpecInputs, folder: str) -> SpecInputs:
    """The values of a spec that are known, with its files as they are by now.

    Raises
    ------
    PythonFilesError, SyncError, UnusablePath
        If one of them cannot be used any more.
    """
    from nbprov.spec import fill_paths

    filled = fill_paths(spec, given.envs)
    check_sources(filled, Path(folder))
    python = read_source(spec.python, Path(folder), filled.workdir)
    return replace(given, python=python)


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

    outputs = replace(spec, file_mounts=(), workdir="")
    filled = fill_paths(outputs, {**known_envs(spec, given), **given})
    return replace(spec, outputs=filled.outputs)


def inherited_names(spec: Spec, given: Mapping[str, str]) -> tuple[str, ...]:
    """The names that a spec leaves open and that have their values of this kernel's environment."""
    return tuple(
        name
        for values in (spec.envs, spec.secrets)
        for name, value in values.items()
        if value is None and name not in given and name in os.environ
    )


def known_envs(spec: Spec, given: Mapping[str, str]) -> dict[str, str]:
    """The values of a spec's envs that are known without asking anybody.

    Examples
    --------
    >>> known_envs(Spec(envs={"MODE": "fast", "RUN": None, "NOWHERE": None}), {"RUN": "7"})
    {'MODE': 'fast', 'RUN': '7'}
    """
    own = {name: os.environ.get(name) if v is None else v for name, v in spec.envs.items()}
    found = {name: given.get(name, value) for name, value in own.items()}
    return {name: value for name, value in found.items() if value is not None}


def known_sources(spec: Spec, values: Mapping[str, str]) -> tuple[Spec, tuple[str, ...]]:
    """A spec with the sources whose values are known, filled in, and those that wait for a value.

    Examples
    --------
    >>> from nbprov.model.sources import Mount
    >>> mounts = (Mount("/d", "$DATA"),)
    >>> spec = Spec(workdir="$W", file_mounts=mounts, envs={"W": "x", "DATA": None})
    >>> known, waiting = known_sources(spec, {"W": "x"})
    >>> known.workdir, known.file_mounts, waiting
    ('x', (), ('file_mounts: $DATA',))
    """
    from nbprov.spec import fill_paths, variables_in

    def waits(*texts: str) -> bool:
        names = frozenset[str]().union(*map(variables_in, texts))
        return any(name in spec.envs and name not in values for name in names)

    workdir, waiting = spec.workdir, []
    texts = (workdir.url, workdir.ref) if isinstance(workdir, Repository) else (workdir,)
    if waits(*texts):
        workdir, waiting = "", [f"workdir: {' '.join(filter(None, texts))}"]
    mounts = tuple(mount for mount in spec.file_mounts if not waits(mount.source))
    waiting += [f"file_mounts: {m.source}" for m in spec.file_mounts if m not in mounts]
    return fill_paths(replace(spec, workdir=workdir, file_mounts=mounts), values), tuple(waiting)


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
