"""Find the one task among the YAML documents of a cell."""

from __future__ import annotations

from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Scalar, describe

_HEADER = frozenset({"name", "execution"})
"""The fields of a document that names a pipeline and holds no task."""


def single_task(documents: list[Node], findings: Findings) -> tuple[str, Mapping]:
    """The task of the cell, and the name that a header document gives."""
    start = Mark(findings.first_line, 1, 0)
    if not documents:
        findings.fail(
            start,
            "",
            "empty",
            "the cell says nothing",
            "say what you want: resources: {accelerators: A100}",
        )
    for document in documents:
        if not isinstance(document, Mapping):
            hint = "write `key: value` lines: resources: {accelerators: A100}"
            findings.fail(
                document.start,
                "",
                "not-a-map",
                f"the cell must be a map of fields, not {describe(document)}",
                hint,
            )
    tasks = [d for d in documents if isinstance(d, Mapping)]
    name = ""
    if len(tasks) > 1 and tasks[0].pairs and all(key.text in _HEADER for key, _ in tasks[0].pairs):
        header = tasks.pop(0)
        given = header.get("name")
        name = given.text if isinstance(given, Scalar) and not given.is_null else ""
        findings.note(
            header.start,
            "",
            "header",
            "the first document is read as the header of a pipeline with one task",
        )
    if len(tasks) > 1:
        lines = ", ".join(str(t.start.line) for t in tasks)
        hint = "cut it there and give each its own cell"
        findings.fail(
            tasks[1].start,
            "",
            "tasks",
            f"one task a cell: {len(tasks)} begin here, in lines {lines}",
            hint,
        )
    return name, tasks[0]
