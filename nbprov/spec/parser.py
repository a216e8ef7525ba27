"""Parse a cell: from its YAML documents to a `Spec`, with all errors at once."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Mapping as Map
from dataclasses import replace
from typing import Any

from nbprov.model.resources import Request
from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.model.spec import KEEP, ComputeEngine, ExposedPorts, HealthCheck, Spec

from .interpolation.redaction import hide_secrets
from .interpolation.substitution import fill, source_of
from .reading import literals
from .reading.container_config import ContainerConfig, read_config
from .reading.documents import single_task
from .reading.engine import read_engine
from .reading.envs import (
    Secrets,
    check_docker_login,
    read_envs,
    read_secrets,
    settle_both,
    warn_of_copies,
)
from .reading.field_reader import as_mapping, converted, join, recognise
from .reading.guards import guards_of, read_budget
from .reading.health import read_health, remark_on_pool, remark_on_service
from .reading.mounts import read_mounts
from .reading.outputs import read_inputs, read_outputs
from .reading.path_variables import holds_unfit
from .reading.public_ports import read_expose
from .reading.python_env import read_on_setup_failure, read_python
from .reading.resources.requests import Resources, read_resources
from .reading.run_policies import narrowed, read_confirm, read_prefer, read_race, read_wait
from .reading.workdir import read_workdir
from .schema.registry import OWN, Section
from .yaml.diagnostics import Findings, InvalidValue
from .yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    as_given,
    describe,
    is_null,
    quoted,
)
from .yaml.reader import read


def parse(
    text: str,
    ignore: frozenset[str] = frozenset(),
    *,
    first_line: int = 1,
    variables: Map[str, object] | None = None,
    given: Collection[str] | None = None,
) -> Spec:
    """Read the body of a `%%provision` cell.

    Parameters
    ----------
    text
        YAML: what SkyPilot calls a task, with nbprov's own fields.
    ignore
        Fields that nbprov does not know or cannot honour, which are left out with a warning instead
        of an error.
    first_line
        The number of the first line as the reader counts; 2 if the text stands below a magic line.
    variables
        Values for `$name`: the notebook's names and values. None if there is no notebook; `$name`
        is then an error wherever the machine's shell does not read it.
    given
        Names of envs and secrets for which the caller has values. If the cell has other errors,
        names that it leaves open and that are not among these are reported too. None: the caller
        checks them.

    Raises
    ------
    SpecError
        With all problems of the cell, each with its place and a hint.

    Examples
    --------
    >>> text = "resources: {accelerators: $gpus}"
    >>> parse(text, variables={"gpus": ["H100:8", "A100:8"]}).variables
    (Variable(name='gpus', shown="['H100:8', 'A100:8']", paths=('resources.accelerators',)),)
    >>> spec = parse("resources: {accelerators: [H100:8, A100:8], use_spot: true}")
    >>> [str(request) for request in spec.requests]
    ['H100:8 spot', 'A100:8 spot']
    """
    findings = Findings(text, frozenset(ignore), first_line)
    filled = fill(read(findings), variables, findings)
    documents = filled.documents
    secret = hide_secrets(documents, findings)
    name, task = single_task(documents, findings)
    reader = _TaskReader(task, findings)
    spec = reader.spec(name)
    if given is not None and findings.problem_count:
        reader.report_open_values(spec, given)
    findings.raise_if_any()
    warn_of_copies(documents, findings)
    _note_useless_ignores(task, findings)
    made = replace(
        replace(spec, remarks=findings.finished_remarks(), lines=reader.lines),
        source=source_of(filled, secret, findings),
        variables=filled.variables,
    )
    return made if findings.ignored else replace(made, source_spec=_without_hidden(made))


def _without_hidden(spec: Spec) -> Spec:
    """A spec without the values that its source text does not show."""
    wait = replace(spec.wait, notify=spec.wait.notify or bool(spec.wait.webhook), webhook="")
    return replace(spec, secrets=dict.fromkeys(spec.secrets), wait=wait)


def _note_useless_ignores(task: Mapping, findings: Findings) -> None:
    for unused in sorted(findings.ignore - findings.ignored):
        findings.note(
            task.start,
            unused,
            "ignored",
            f"--ignore {unused} changed nothing: the cell holds no such field to leave out",
        )


class _TaskReader:
    """Reads the fields of one task; problems go to the findings."""

    def __init__(self, mapping: Mapping, findings: Findings) -> None:
        self._findings = findings
        self._mapping = mapping
        self._fields: dict[str, tuple[Scalar, Node]] = {}
        self._collect(mapping, Section.TASK, "")

    def _collect(self, mapping: Mapping, where: Section, path: str) -> None:
        for key, value in mapping.pairs:
            known = recognise(key, value, where, path, self._findings)
            if known is not None and known.name == "nbprov":
                self._collect_own(value)
            elif known is not None and not is_null(value):
                self._fields[known.name] = (key, value)

    def _collect_own(self, node: Node) -> None:
        if is_null(node):
            return
        own = as_mapping(node, "nbprov", self._findings, "write nbprov: {budget: 10}")
        if own is None:
            return
        for key, _ in own.pairs:
            twin = next(
                (k for k, v in self._mapping.pairs if k.text == key.text and not is_null(v)), None
            )
            if key.text in OWN and twin is not None:
                message = (
                    f"{quoted(key.text)} is given here and at top level, in line {twin.start.line}"
                )
                self._findings.error(
                    key.start, f"nbprov.{key.text}", "same-field", message, "keep one of them"
                )
        self._collect(own, Section.NBPROV, "nbprov")

    @property
    def lines(self) -> tuple[tuple[str, int], ...]:
        """The line of each field of the cell itself."""
        return tuple((name, key.start.line) for name, (key, _) in self._fields.items())

    def spec(self, header_name: str) -> Spec:
        self._both("service", "pool")
        resources = (
            self._read("resources", lambda node: read_resources(node, self._findings))
            or Resources()
        )
        num_nodes = self._read("num_nodes", self._num_nodes) or 1
        envs, secrets = self._environment(resources.requests)
        config = (
            self._read("config", lambda node: read_config(node, self._findings))
            or ContainerConfig()
        )
        ports = tuple(
            dict.fromkeys(both for request in resources.requests for both in request.ports)
        )
        self._remark_on_unused(ports)
        visible = {key: value for key, value in envs.items() if value is not None}
        return Spec(
            requests=resources.requests,
            name=self._scalar("name", literals.cluster_name, "text") or _header_name(header_name),
            num_nodes=num_nodes,
            setup=self._command("setup"),
            run=self._command("run"),
            envs=envs,
            secrets=secrets,
            workdir=self._read(
                "workdir",
                lambda node: read_workdir(node, visible, frozenset(secrets), self._findings),
            )
            or "",
            file_mounts=self._read(
                "file_mounts",
                lambda node: read_mounts(node, visible, frozenset(secrets), self._findings),
            )
            or (),
            guards=guards_of(
                resources.autostop,
                self._scalar("max_lifetime", literals.duration, "a duration"),
                self._at("budget", read_budget),
                self._findings,
            ),
            prefer=self._at("prefer", read_prefer) or OrderPolicy.CHEAPEST,
            race=self._race(num_nodes),
            wait=self._at("wait", read_wait) or WaitPolicy(),
            confirm_above=self._at("confirm_above", read_confirm) or ConfirmAbove(),
            engine=self._engine(),
            health=self._at("health", read_health) or HealthCheck(),
            expose=self._read(
                "expose",
                lambda node: read_expose(node, self._path("expose"), ports, self._findings),
            )
            or ExposedPorts(),
            outputs=self._at("outputs", read_outputs) or (),
            python=self._at("python", read_python),
            on_setup_failure=self._at("on_setup_failure", read_on_setup_failure) or KEEP,
            inputs=self._at("inputs", read_inputs) or (),
            hooks=config.hooks,
            docker_options=config.docker_options,
            recovery=resources.recovery,
        )

    def report_open_values(self, spec: Spec, given: Collection[str]) -> None:
        """Report each env and secret without a value, where it is written."""
        for field, values in (("envs", spec.envs), ("secrets", spec.secrets)):
            for name in (n for n, value in values.items() if value is None and n not in given):
                at = self._written(name)
                if at is not None:
                    hint = f"--env {name}=…, or set it in the kernel's environment"
                    self._findings.error(
                        at, join(field, name), "no-value", f"no value for {name}", hint
                    )

    def _written(self, name: str) -> Mark | None:
        """The place of an env or secret: its key, or its entry in a list of names."""
        for field in ("secrets", "managed_secrets", "envs"):
            _, node = self._fields.get(field, (None, None))
            entries = (
                [key for key, _ in node.pairs]
                if isinstance(node, Mapping)
                else node.items
                if isinstance(node, Sequence)
                else ()
            )
            for entry in entries:
                if isinstance(entry, Scalar) and re.split(r"[:.]", entry.text)[-1] == name:
                    return entry.start
        return None

    def _environment(self, requests: tuple[Request, ...]) -> tuple[dict[str, str | None], Secrets]:
        given = {
            name: value
            for name in ("envs", "secrets", "managed_secrets")
            for _, value in [self._fields.get(name, (None, None))]
        }
        envs = read_envs(given["envs"], self._findings)
        secrets = read_secrets(given["secrets"], given["managed_secrets"], self._findings)
        place = (
            self._fields.get("envs")
            or self._fields.get("secrets")
            or self._fields.get("managed_secrets")
        )
        if place is not None:
            settle_both(envs, secrets, place[0].start, self._findings)
            check_docker_login(envs, secrets, requests, place[0].start, self._findings)
        return envs, secrets

    def _race(self, num_nodes: int) -> Race:
        race = self._at("race", read_race) or Race()
        given = self._fields.get("race")
        return narrowed(race, given[1] if given else None, "race", num_nodes, self._findings)

    def _engine(self) -> ComputeEngine | None:
        engine: ComputeEngine | None = self._at("engine", read_engine)
        return engine

    def _remark_on_unused(self, ports: tuple[tuple[int, int], ...]) -> None:
        """Remark on fields that belong to another product, or that nothing acts on yet."""
        if "inputs" in self._fields:
            key, node = self._fields["inputs"]
            if isinstance(node, Mapping) and node.pairs:
                words = "inputs is read, but what moving the data costs is not in the plan yet"
                self._findings.note(key.start, self._path("inputs"), "not-used", words)
        if "service" in self._fields:
            key, node = self._fields["service"]
            remark_on_service(node, key.start, ports, self._findings)
        if "pool" in self._fields:
            key, node = self._fields["pool"]
            remark_on_pool(node, key.start, self._findings)
        if "event_callback" in self._fields:
            at = self._fields["event_callback"][0].start
            message = "event_callback is not run: nbprov runs no local scripts of a spec"
            hint = "write wait: {notify: true} to be told, or give it a webhook's URL"
            self._findings.cannot_honour(at, "event_callback", "event_callback", message, hint)

    def _at(self, name: str, read_value: Any) -> Any:
        return self._read(name, lambda node: read_value(node, self._path(name), self._findings))

    def _path(self, name: str) -> str:
        key = self._fields[name][0]
        return name if any(key is k for k, _ in self._mapping.pairs) else join("nbprov", name)

    def _read(self, name: str, read_value: Any) -> Any:
        found = self._fields.get(name)
        return read_value(found[1]) if found else None

    def _scalar(self, name: str, convert: Any, wants: str) -> Any:
        return self._read(
            name,
            lambda node: converted(node, self._path(name), self._findings, convert, wants=wants),
        )

    def _both(self, one: str, other: str) -> None:
        keys = {
            key.text: key
            for key, value in self._mapping.pairs
            if key.text in (one, other) and not is_null(value)
        }
        if len(keys) == 2:
            message = f"{one} and {other} cannot be given together"
            self._findings.error(keys[other].start, other, "both", message, "keep one of them")

    def _num_nodes(self, node: Node) -> int | None:
        if (
            isinstance(node, Scalar)
            and node.kind is ScalarKind.INT
            and node.text.isdecimal()
            and len(node.text) <= 6
            and int(node.text) > 0
        ):
            return int(node.text)
        given = as_given(node)
        hint = "write num_nodes: 2, a whole number without quotes"
        self._findings.error(
            node.start,
            "num_nodes",
            "value",
            f"num_nodes must be a whole number from 1, not {given}",
            hint,
        )
        return None

    def _command(self, name: str) -> str:
        hint = f"write {name}: |, and the commands below it, indented"

        def command(node: Node) -> str | None:
            if isinstance(node, Scalar) and node.kind is ScalarKind.TEXT:
                return (
                    None if holds_unfit(node, name, self._findings, of="no command") else node.text
                )
            self._findings.error(
                node.start, name, "type", f"{name} must be text, not {describe(node)}", hint
            )
            return None

        return self._read(name, command) or ""


def _header_name(name: str) -> str:
    try:
        return literals.cluster_name(name) if name else ""
    except InvalidValue:
        return ""
