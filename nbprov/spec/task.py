"""The top level of a cell: from its documents to a Spec, all errors at once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from nbprov.model.spec import Mount, Secret, Spec

from . import scalars
from .fields import OWN, Where
from .guards import guards_of, read_budget
from .mounts import read_mounts, read_workdir
from .nodes import Kind, Mapping, Mark, Node, Scalar, Sequence, describe, is_null, quoted
from .problems import Findings
from .reader import read
from .resources import Resources, read_resources
from .secrecy import REFERENCE, all_scalars, blotted, hide_secrets
from .values import as_mapping, converted, join, recognise, text_of

_HEADER = frozenset({"name", "execution"})
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"secrets:(?:(?:personal|workspace|global)\.)?([A-Za-z_][A-Za-z0-9_]*)")
_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD)(_|$)", re.IGNORECASE)
_NOTEBOOK_VARIABLE = re.compile(r"\$(?:[A-Za-z]\w*|\{\w+\})")


def parse(text: str, ignore: frozenset[str] = frozenset(), *, first_line: int = 1) -> Spec:
    """Read the body of a `%%provision` cell.

    Parameters
    ----------
    text
        YAML: what SkyPilot calls a task, with nbprov's own fields.
    ignore
        Fields that nbprov cannot honour, or does not know, and that shall be left out with a warning instead of an error.
    first_line
        The number of the first line as the reader counts; 2 where the text stands below a cell's magic line.

    Raises
    ------
    SpecError
        With all problems of the cell, each with its place and a hint.

    Examples
    --------
    >>> spec = parse("resources: {accelerators: [H100:8, A100:8], use_spot: true}")
    >>> [str(request) for request in spec.requests]
    ['H100:8 spot', 'A100:8 spot']
    """
    findings = Findings(text, frozenset(ignore), first_line)
    documents = read(findings)
    secret = hide_secrets(documents, findings)
    name, task = _single_task(documents, findings)
    spec = _Task(task, findings).spec(name)
    findings.raise_if_any()
    _warn_of_copies(documents, findings)
    for unused in sorted(findings.ignore - findings.ignored):
        findings.note(task.start, unused, "ignored", f"--ignore {unused} changed nothing: the cell holds no such field to leave out")
    return _finished(spec, findings, blotted(documents, secret, findings))


def _finished(spec: Spec, findings: Findings, source: str) -> Spec:
    return replace(spec, remarks=findings.finished_remarks(), source=source)


def _single_task(documents: list[Node], findings: Findings) -> tuple[str, Mapping]:
    """The task of the cell, and the name that a header document gave."""
    start = Mark(findings.first_line, 1, 0)
    if not documents:
        findings.fail(start, "", "empty", "the cell says nothing", "say what you want: resources: {accelerators: A100}")
    for document in documents:
        if not isinstance(document, Mapping):
            hint = "write `key: value` lines: resources: {accelerators: A100}"
            findings.fail(document.start, "", "not-a-map", f"the cell must be a map of fields, not {describe(document)}", hint)
    tasks = [d for d in documents if isinstance(d, Mapping)]
    name = ""
    if len(tasks) > 1 and tasks[0].pairs and all(key.text in _HEADER for key, _ in tasks[0].pairs):
        header = tasks.pop(0)
        given = header.get("name")
        name = given.text if isinstance(given, Scalar) and not given.is_null else ""
        findings.note(header.start, "", "header", "the first document is read as the header of a pipeline with one task")
    if len(tasks) > 1:
        lines = ", ".join(str(t.start.line) for t in tasks)
        hint = "cut it there and give each its own cell"
        findings.fail(tasks[1].start, "", "tasks", f"one task a cell: {len(tasks)} begin here, in lines {lines}", hint)
    return name, tasks[0]


class _Task:
    """Reads the fields of one task; problems go to the findings."""

    def __init__(self, mapping: Mapping, findings: Findings) -> None:
        self._findings = findings
        self._mapping = mapping
        self._fields: dict[str, tuple[Scalar, Node]] = {}
        self._collect(mapping, Where.TASK, "")

    def _collect(self, mapping: Mapping, where: Where, path: str) -> None:
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
            twin = next((k for k, v in self._mapping.pairs if k.text == key.text and not is_null(v)), None)
            if key.text in OWN and twin is not None:
                message = f"{quoted(key.text)} is given here and at top level, in line {twin.start.line}"
                self._findings.error(key.start, f"nbprov.{key.text}", "same-field", message, "keep one of them")
        self._collect(own, Where.NBPROV, "nbprov")

    def spec(self, header_name: str) -> Spec:
        self._both("service", "pool")
        resources = self._read("resources", lambda node: read_resources(node, self._findings)) or Resources()
        max_lifetime = self._scalar("max_lifetime", scalars.duration, "a duration")
        budget = self._read("budget", lambda node: read_budget(node, self._path("budget"), self._findings))
        envs = self._envs()
        secrets = self._secrets()
        for name in sorted(envs.keys() & secrets.keys()):
            at = self._fields["envs"][0].start
            self._findings.warn(at, f"envs.{name}", "env-and-secret", f"{name} stands under envs and under secrets; the secret is used")
            del envs[name]
        self._config()
        workdir = self._read("workdir", lambda node: read_workdir(node, self._findings)) or ""
        visible = {key: value for key, value in envs.items() if value is not None}
        mounts: tuple[Mount, ...] = (
            self._read("file_mounts", lambda node: read_mounts(node, visible, frozenset(secrets), self._findings)) or ()
        )
        return Spec(
            requests=resources.requests,
            name=self._scalar("name", scalars.cluster_name, "text") or _header_name(header_name),
            num_nodes=self._read("num_nodes", self._num_nodes) or 1,
            setup=self._command("setup"),
            run=self._command("run"),
            envs=envs,
            secrets=secrets,
            workdir=workdir,
            file_mounts=mounts,
            guards=guards_of(resources.autostop, max_lifetime, budget, self._findings),
        )

    def _path(self, name: str) -> str:
        key = self._fields[name][0]
        return name if any(key is k for k, _ in self._mapping.pairs) else join("nbprov", name)

    def _read(self, name: str, read_value: Any) -> Any:
        found = self._fields.get(name)
        return read_value(found[1]) if found else None

    def _scalar(self, name: str, convert: Any, wants: str) -> Any:
        return self._read(name, lambda node: converted(node, self._path(name), self._findings, convert, wants=wants))

    def _both(self, one: str, other: str) -> None:
        keys = {key.text: key for key, value in self._mapping.pairs if key.text in (one, other) and not is_null(value)}
        if len(keys) == 2:
            message = f"{one} and {other} cannot be given together"
            self._findings.error(keys[other].start, other, "both", message, "keep one of them")

    def _num_nodes(self, node: Node) -> int | None:
        if isinstance(node, Scalar) and node.kind is Kind.INT and node.text.isdecimal() and len(node.text) <= 6 and int(node.text) > 0:
            return int(node.text)
        given = quoted(node.text) if isinstance(node, Scalar) else describe(node)
        hint = "write num_nodes: 2, a whole number without quotes"
        self._findings.error(node.start, "num_nodes", "value", f"num_nodes must be a whole number from 1, not {given}", hint)
        return None

    def _command(self, name: str) -> str:
        hint = f"write {name}: |, and the commands below it, indented"

        def command(node: Node) -> str | None:
            if isinstance(node, Scalar) and node.kind is Kind.TEXT:
                return node.text
            self._findings.error(node.start, name, "type", f"{name} must be text, not {describe(node)}", hint)
            return None

        return self._read(name, command) or ""

    def _config(self) -> None:
        found = self._fields.get("config")
        mapping = as_mapping(found[1], "config", self._findings, "write a map") if found else None
        for key, value in mapping.pairs if mapping else ():
            recognise(key, value, Where.CONFIG, "config", self._findings)

    def _envs(self) -> dict[str, str | None]:
        envs: dict[str, str | None] = {}
        found = self._fields.get("envs")
        mapping = as_mapping(found[1], "envs", self._findings, "write envs: {EPOCHS: 3}") if found else None
        for key, value in mapping.pairs if mapping else ():
            path = join("envs", key.text)
            if not self._is_variable_name(key, path):
                continue
            text = text_of(value, path, self._findings, wants="text")
            if text is None:
                continue
            envs[key.text] = None if is_null(value) else text
            if text and not is_null(value):
                self._remark_on_env(key, text, path)
        return envs

    def _remark_on_env(self, key: Scalar, text: str, path: str) -> None:
        if _NOTEBOOK_VARIABLE.fullmatch(text):
            words = f"notebook variables are not filled in yet: {key.text} is the text {quoted(text)}"
            self._findings.warn(key.start, path, "variable", words)
        elif _SECRET_NAME.search(key.text) and not text.startswith("$"):
            words = f"{key.text} looks like a secret and is shown and stored as it is; under `secrets` it is hidden"
            self._findings.warn(key.start, path, "looks-secret", words)

    def _secrets(self) -> dict[str, Secret | None]:
        secrets: dict[str, Secret | None] = {}
        found = self._fields.get("secrets")
        if found and isinstance(found[1], Sequence):
            secrets.update(dict.fromkeys(self._references(found[1], _REFERENCE, "secrets"), None))
        elif found:
            secrets.update(self._secret_map(found[1]))
        managed = self._fields.get("managed_secrets")
        if managed and isinstance(managed[1], Sequence):
            for name in self._references(managed[1], re.compile(f"({_VARIABLE_NAME.pattern})"), "managed_secrets"):
                secrets.setdefault(name, None)
        elif managed:
            self._findings.error(managed[1].start, "managed_secrets", "type", "managed_secrets must be a list of names", "write [TOKEN]")
        return secrets

    def _references(self, node: Sequence, pattern: re.Pattern[str], path: str) -> list[str]:
        names = []
        for number, item in enumerate(node.items):
            match = pattern.fullmatch(item.text) if isinstance(item, Scalar) else None
            if match:
                names.append(match[1])
            else:
                form = f"`{REFERENCE}NAME`" if path == "secrets" else "a name"
                self._findings.error(
                    item.start, f"{path}[{number}]", "secret", f"an entry of {path} must be {form}", "write secrets: {NAME: null}"
                )
        return names

    def _secret_map(self, node: Node) -> dict[str, Secret | None]:
        secrets: dict[str, Secret | None] = {}
        mapping = as_mapping(node, "secrets", self._findings, "write secrets: {TOKEN: null}")
        for key, value in mapping.pairs if mapping else ():
            path = join("secrets", key.text)
            if key.text.startswith(REFERENCE):
                name = key.text.removeprefix(REFERENCE)
                self._findings.error(key.start, path, "secret", f"{quoted(key.text)} cannot have a value here", f"write {name}: null")
            elif not isinstance(value, Scalar):
                self._findings.error(value.start, path, "type", f"{path} must be text or null", f"write {key.text}: null")
            elif self._is_variable_name(key, path):
                secrets[key.text] = None if value.is_null else Secret(value.text)
                if not value.is_null and value.text:
                    words = f"the value of {key.text} is saved in the notebook; with `{key.text}: null` it is asked for or taken from the kernel"
                    self._findings.warn(key.start, path, "literal-secret", words)
        return secrets

    def _is_variable_name(self, key: Scalar, path: str) -> bool:
        if _VARIABLE_NAME.fullmatch(key.text):
            return True
        message = f"{quoted(key.text)} is not the name of a variable"
        self._findings.error(key.start, path, "env-name", message, "use letters, digits and _, not a digit first")
        return False


def _header_name(name: str) -> str:
    try:
        return scalars.cluster_name(name) if name else ""
    except scalars.Bad:
        return ""


def _warn_of_copies(documents: list[Node], findings: Findings) -> None:
    """Warn where a secret's value is also written in the clear, which nothing here can hide."""
    values = {v for v in findings.secret_values() if len(v) >= 8}
    if not values:
        return
    for document in documents:
        pairs = document.pairs if isinstance(document, Mapping) else ()
        for key, node in pairs:
            if key.text in ("setup", "run", "envs") and any(v in s.text for s in all_scalars(node, set()) for v in values):
                words = f"{key.text} holds a secret's value in the clear; write $NAME of the secret instead"
                findings.warn(key.start, key.text, "secret-copied", words)
