"""Read `health`, the check that a machine is ready, and remark on `service` and `pool`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from nbprov.model.spec import HealthCheck
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Scalar, ScalarKind, as_given, is_off, quoted

from . import literals
from .field_reader import choice, converted, members, text_of, whole

MAX_FAILURES = 1000

_HTTP = re.compile(r":([0-9]{1,5})(/\S*)?")


def read_health(node: Node, path: str, findings: Findings) -> HealthCheck | None:
    """Read a command, `:8000/ok`, `false`, `true`, or the map."""
    if is_off(node):
        return HealthCheck(on=False)
    if isinstance(node, Scalar):
        if node.kind is ScalarKind.BOOL:
            return HealthCheck()
        if node.text.strip().startswith(":") or re.match(r"https?://", node.text.strip()):
            http = converted(node, path, findings, http_check, wants="a port and path")
            return (
                None if http is None else _said(HealthCheck(http=http), node.start, path, findings)
            )
        command = _command(node, path, findings)
        return None if command is None else HealthCheck(command=command)
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be a command or a map, not {as_given(node)}",
            f"write {path}: nvidia-smi -L",
        )
        return None
    found: dict[str, Any] = {}
    at: dict[str, Mark] = {}
    for name, value, here in members(node, Section.HEALTH, path, findings):
        read: Any
        if name == "command":
            read = _command(value, here, findings)
        elif name == "http":
            read = converted(value, here, findings, http_check, wants="a port and path")
        elif name == "failures":
            read = whole(value, here, findings, most=MAX_FAILURES, example="failures: 3")
        elif name == "on_fail":
            read = choice(value, here, findings, ("report", "replace", "down"))
        else:
            read = converted(value, here, findings, literals.seconds, wants="a duration")
        if read is not None:
            found[name], at[name] = read, value.start
    _say_what_ends_with_ready(found, at, path, findings)
    return _said(replace(HealthCheck(), **found), at.get("http", node.start), path, findings)


def _say_what_ends_with_ready(
    found: dict[str, Any], at: dict[str, Mark], path: str, findings: Findings
) -> None:
    """Remark that the check ends when the machine is handed over."""
    if (on_fail := found.get("on_fail", "report")) != "report":
        words = (
            f"{path}: on_fail: {on_fail} is not done yet: a machine that fails later is not "
            "noticed; one that fails at first is replaced"
        )
        findings.not_acted_on(at["on_fail"], path, "health", words)
    elif partly := [name for name in ("every", "failures") if name in found]:
        findings.note(
            at[partly[0]],
            path,
            "not-used",
            f"{path}: every and failures hold until the machine is ready; it is not asked again "
            "yet",
        )


def _command(node: Node, path: str, findings: Findings) -> str | None:
    text = text_of(node, path, findings, wants="a command", numbers=False)
    if text is not None and not text.strip():
        findings.error(
            node.start,
            path,
            "value",
            f"{path} is an empty command",
            "write nvidia-smi -L, or health: false",
        )
        return None
    return text


def http_check(text: str) -> str:
    """A port and a path on the machine, `:8000/ok`.

    Examples
    --------
    >>> http_check(":8000"), http_check("http://localhost:8000/ok")
    (':8000/', ':8000/ok')
    """
    bare = re.sub(r"^http://(localhost|127\.0\.0\.1)(?=:)", "", text.strip(), flags=re.IGNORECASE)
    match = _HTTP.fullmatch(bare)
    if match is None or not 1 <= int(match[1]) <= 65535:
        raise InvalidValue(
            f"{quoted(text)} is not a port and path of the machine", 'write ":8000/ok"'
        )
    return f":{int(match[1])}{match[2] or '/'}"


def _said(health: HealthCheck, at: Mark, path: str, findings: Findings) -> HealthCheck:
    if health.http:
        words = f"{path}: {health.http} is not asked yet; the machine counts as ready without it"
        findings.not_acted_on(at, path, "health", words)
    return health


def remark_on_service(
    node: Node, at: Mark, ports: tuple[tuple[int, int], ...], findings: Findings
) -> None:
    """Remark that no replicas are made, and how to run the readiness probe by hand."""
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            "service",
            "type",
            f"service must be a map, not {as_given(node)}",
            "leave it out: it is not used",
        )
        return
    words = "service is not used: one cluster is started, without replicas or a readiness probe"
    probe = _probe(node)
    port = _port(node) or (ports[0][0] if ports else None)
    if probe and port:
        # It is no health command: that runs before `run` starts, so the machine would never be
        # ready and the next one would be paid for.
        words += (
            f"; once run is up, curl -fsS localhost:{port}{probe} in a cell %%on NAME --bash asks "
            "what its probe asks"
        )
    findings.note(at, "service", "not-used", words)


def _probe(node: Mapping) -> str:
    probe = node.get("readiness_probe")
    path = probe.get("path") if isinstance(probe, Mapping) else probe
    text = path.text.strip() if isinstance(path, Scalar) and path.kind is ScalarKind.TEXT else ""
    return text if re.fullmatch(r"/[\w./?=&%~-]{0,100}", text) else ""


def _port(node: Mapping) -> int | None:
    ports = node.get("ports")
    return (
        int(ports.text)
        if isinstance(ports, Scalar) and re.fullmatch(r"[0-9]{1,5}", ports.text)
        else None
    )


def remark_on_pool(node: Node, at: Mark, findings: Findings) -> None:
    """Remark that no pool is made, and what is similar."""
    if not isinstance(node, Mapping):
        findings.error(
            node.start,
            "pool",
            "type",
            f"pool must be a map, not {as_given(node)}",
            "write num_nodes: 3 for equal machines",
        )
        return
    workers = node.get("workers")
    same = (
        f"num_nodes: {workers.text}"
        if isinstance(workers, Scalar) and re.fullmatch(r"[1-9][0-9]{0,4}", workers.text)
        else "num_nodes"
    )
    findings.note(at, "pool", "not-used", f"pool is not used: {same} gives as many equal machines")
