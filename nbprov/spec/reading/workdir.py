"""Read `workdir`: a local folder or a git repository."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from dataclasses import replace

from nbprov.model.sources import Repository, why_not_git_ref, why_not_git_url
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, is_null, quoted

from .field_reader import join, text_of
from .path_variables import VARIABLE, filled, holds_unfit, uses_secret

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def read_workdir(
    node: Node, envs: Map[str, str], secrets: frozenset[str], findings: Findings
) -> str | Repository | None:
    """Read a local folder or a git repository; None, and a problem, for anything else.

    `envs` and `secrets` are as in `read_mounts`.
    """
    path = "workdir"
    if isinstance(node, Mapping):
        return _read_git(node, envs, secrets, findings)
    text = text_of(node, path, findings, wants="a local folder")
    if text is None or holds_unfit(node, path, findings):
        return None
    if not text.strip():
        findings.error(
            node.start,
            path,
            "value",
            "workdir names no folder",
            "write workdir: . for the notebook's folder",
        )
    elif _URI.match(text):
        findings.error(
            node.start,
            path,
            "value",
            "workdir must be a local folder, not a URI",
            "write {url: https://…} for a git repository; files go into file_mounts",
        )
    return text


def _read_git(
    node: Mapping, envs: Map[str, str], secrets: frozenset[str], findings: Findings
) -> Repository | None:
    """Read `{url: …, ref: …}`; it keeps its `$VAR`, as paths do."""
    before = findings.problem_count
    given: dict[str, Scalar] = {}
    for key, value in node.pairs:
        here = join("workdir", key.text)
        if key.text not in ("url", "ref"):
            findings.error(
                key.start,
                here,
                "unknown-field",
                f"unknown field {quoted(key.text)} under `workdir`",
                "it takes url and ref",
            )
        elif (
            not is_null(value)
            and text_of(value, here, findings, wants="text") is not None
            and not holds_unfit(value, here, findings)
        ):
            assert isinstance(value, Scalar), "what has text is a scalar"
            given[key.text] = value
    if not given.get("url") and findings.problem_count == before:
        findings.error(
            node.start,
            "workdir",
            "missing",
            "workdir does not say its url",
            "write workdir: ./code, or {url: https://…, ref: main}",
        )
    for name, value in given.items():
        if not uses_secret(value, join("workdir", name), secrets, findings):
            check_git(name, replace(value, text=filled(value.text, envs)), findings)
    if findings.problem_count > before:
        return None
    return Repository(given["url"].text, given["ref"].text if "ref" in given else "")


def check_git(name: str, value: Scalar, findings: Findings, *, final: bool = False) -> None:
    """Check the url or the ref of a git workdir.

    One that still holds a variable passes, unless `final`.
    """
    if VARIABLE.search(value.text) and not final:
        return
    why = why_not_git_url(value.text) if name == "url" else why_not_git_ref(value.text)
    if why:
        if "password" in why:
            findings.hide([value])
        hint = (
            "write it without; a key that setup needs goes into secrets"
            if "password" in why
            else "write {url: https://HOST/REPOSITORY.git, ref: main}"
        )
        findings.error(value.start, join("workdir", name), "value", f"workdir: {name}: {why}", hint)
