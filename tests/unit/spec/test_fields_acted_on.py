"""What the parser accepts and nothing acts on is said in the plan, with its line."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import nbprov
from nbprov.model.resources import Request
from nbprov.model.spec import HealthCheck, Spec
from nbprov.spec import parse

PACKAGE = Path(nbprov.__file__).parent
READERS = [
    path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("spec", "model")
]
"""All modules that could act on a spec; the parser, the writers and the values do not."""

NOT_ACTED_ON = {
    "Spec.inputs": ("inputs", "inputs:\n  s3://bucket/x: 120"),
    "Spec.hooks": ("hooks", "config:\n  hooks:\n    - run: ./save.sh\n      events: [stop]"),
    "Spec.docker_options": ("run_options", "config:\n  docker:\n    run_options: [--gpus=all]"),
    "Spec.recovery": ("job_recovery", "resources:\n  job_recovery: failover"),
    "HealthCheck.http": ("http", 'health:\n  timeout: 5s\n  http: ":80/x"'),
    "HealthCheck.on_fail": ("on_fail", "health:\n  timeout: 5s\n  on_fail: replace"),
}
"""For each field of a spec that no module reads: its name as written, and a spec with it."""
IN_PART = {
    "health": ("health", 'health: ":80/x"'),
    "every": ("every", "health:\n  timeout: 5s\n  every: 20s"),
    "strategy": ("strategy", "resources:\n  job_recovery:\n    strategy: failover"),
    "failures": ("failures", "health:\n  on_fail: report\n  failures: 2"),
    "image_id": ("image_id", "resources:\n  infra: aws\n  image_id: skypilot:gpu-ubuntu-2004"),
    "spot_recovery": ("spot_recovery", "resources:\n  spot_recovery: failover"),
}
"""The same for what is acted on in part, or in another way."""


def _is_read(owner: str, name: str) -> bool:
    """Whether a module asks a value that is called as its class for this field."""
    return any(re.search(rf"\b_?{owner}\.{name}\b", text) for text in READERS)


def _unread(kind: type, *owners: str) -> set[str]:
    return {
        f"{kind.__name__}.{field.name}"
        for field in dataclasses.fields(kind)
        if not any(_is_read(owner, field.name) for owner in owners)
    }


def test_fields_that_nothing_reads_are_known() -> None:
    found = _unread(Spec, "spec", "wanted") | _unread(HealthCheck, "health")
    found |= _unread(Request, "request", "resolved", "asked", "r") - {"Request.lines"}
    assert found == set(NOT_ACTED_ON), "say it in the plan, or act on it"


@pytest.mark.parametrize("field", {**NOT_ACTED_ON, **IN_PART})
def test_what_is_not_acted_on_is_said_with_its_line(field: str) -> None:
    name, text = {**NOT_ACTED_ON, **IN_PART}[field]
    lines = f"name: dev\n{text}\nrun: echo\n".splitlines()
    (line,) = [n for n, words in enumerate(lines, 1) if words.strip().startswith(f"{name}:")]
    remarks = parse("\n".join(lines)).remarks
    assert [r.origin.line for r in remarks] == [line], remarks


def test_what_asks_for_nothing_else_is_not_remarked_on() -> None:
    text = "resources: {job_recovery: none}\nhealth: {on_fail: report}\ninputs: null\n"
    assert parse(text).remarks == ()
