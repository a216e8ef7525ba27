"""Reading `workdir` and `file_mounts`, and filling in the variables of their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import PurePosixPath

from nbprov.model.sources import (
    SourceKind,
    is_plain_http,
    shown_source,
    source_kind,
    why_not_git_ref,
    why_not_git_url,
    why_not_source,
)
from nbprov.model.spec import Mount, Origin, Repository, Spec
from nbprov.spec.schema.registry import Where
from nbprov.spec.yaml.diagnostics import Findings

from .field_reader import as_mapping, choice, join, members, text_of
from .nodes import Kind, Mapping, Mark, Node, Scalar, Sequence, describe, is_null, quoted

WORKDIR_TARGET = "~/sky_workdir"
"""Where `workdir` goes on the machine."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")
_MODES = ("copy", "mount", "mount_cached")
_STORES = ("s3", "gcs", "azure", "r2", "ibm", "oci", "nebius", "coreweave", "vastdata", "volume")
_TYPES = ("model_checkpoint_ro", "model_checkpoint_rw", "dataset_ro", "dataset_rw")
_COPY_HINT = "write {source: s3://BUCKET/PATH, mode: COPY}, or {/data: s3://BUCKET/PATH}"
_LOST = ": what is written there would be lost with the machine"


def read_workdir(
    node: Node, envs: Map[str, str], secrets: frozenset[str], findings: Findings
) -> str | Repository | None:
    """Read a local folder or a git repository; None, and a problem, for anything else. `envs` and `secrets` are as in `read_mounts`."""
    path = "workdir"
    if isinstance(node, Mapping):
        return _read_git(node, envs, secrets, findings)
    text = text_of(node, path, findings, wants="a local folder")
    if text is None:
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
    """`{url: …, ref: …}`, kept with its `$VAR`, as paths are."""
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
        elif not is_null(value) and text_of(value, here, findings, wants="text") is not None:
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
        if not _uses_secret(value, join("workdir", name), secrets, findings):
            _check_git(name, replace(value, text=_filled(value.text, envs)), findings)
    if findings.problem_count > before:
        return None
    return Repository(given["url"].text, given["ref"].text if "ref" in given else "")


def _check_git(name: str, value: Scalar, findings: Findings, *, final: bool = False) -> None:
    """Check the url or the ref of a git workdir; what still holds a variable is checked once that has its value, which is `final`."""
    if _VARIABLE.search(value.text) and not final:
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


def read_mounts(
    node: Node, envs: Map[str, str], secrets: frozenset[str], findings: Findings
) -> tuple[Mount, ...] | None:
    """Read `file_mounts`: local paths, `s3://`, `gs://`, `r2://`, `https://`, and maps with mode COPY; mounted buckets are reported.

    Parameters
    ----------
    envs
        The values known so far. They only serve to check sources: what is returned keeps its `$VAR`, which `fill_paths` replaces
        once all values are known.
    secrets
        Names whose values must not become part of a path.
    """
    mapping = as_mapping(node, "file_mounts", findings, "write file_mounts: {/data: ./data}")
    if mapping is None:
        return None
    mounts: dict[str, Mount] = {}
    for key, value in mapping.pairs:
        path = join("file_mounts", key.text)
        if not _target_is_good(key, path, findings) or _uses_secret(key, path, secrets, findings):
            continue
        for target, source in _local_sources(key.text, value, path, envs, findings):
            if not _uses_secret(source, path, secrets, findings):
                mounts[target] = Mount(target, source.text, Origin(path, key.start.line))
    return tuple(mounts.values())


def _target_is_good(key: Scalar, path: str, findings: Findings) -> bool:
    text = key.text
    wrong = ""
    if not text.strip():
        wrong = "an empty target"
    elif _URI.match(text):
        wrong = f"the target {quoted(text)} is a URI"
    elif text.endswith("/"):
        wrong = f"the target {quoted(text)} ends in a slash"
    elif text == WORKDIR_TARGET:
        wrong = f"{WORKDIR_TARGET} belongs to workdir"
    if wrong:
        findings.error(
            key.start, path, "mount", wrong, "write file_mounts: {/data: ./data}, target first"
        )
    return not wrong


def _uses_secret(scalar: Scalar, path: str, secrets: frozenset[str], findings: Findings) -> bool:
    named = {
        match["bare"] or match["braced"] for match in _VARIABLE.finditer(scalar.text)
    } & secrets
    if named:
        message = f"a secret must not become part of a path: ${min(named)}"
        findings.error(scalar.start, path, "mount", message, f"move {min(named)} to envs")
    return bool(named)


def _local_sources(
    target: str, node: Node, path: str, envs: Map[str, str], findings: Findings
) -> list[tuple[str, Scalar]]:
    """What is copied to a target: (target, source) pairs; several where `source` is a list."""
    if isinstance(node, Mapping):
        return _mapped_sources(target, node, path, envs, findings)
    return (
        [(target, node)]
        if isinstance(node, Scalar) and _source_is_good(node, path, envs, findings)
        else _no_source(node, path, findings)
    )


def _no_source(node: Node, path: str, findings: Findings) -> list[tuple[str, Scalar]]:
    if not isinstance(node, Scalar):
        findings.error(
            node.start,
            path,
            "mount",
            f"{path} must name a file or folder, not {describe(node)}",
            "write {/data: ./data}",
        )
    return []


def _source_is_good(
    node: Scalar, path: str, envs: Map[str, str], findings: Findings, *, final: bool = False
) -> bool:
    """Check one source, a path or a URI, as it is with the values known so far; one that still holds a variable passes unless it is `final`."""
    if is_null(node) or not node.text.strip() or node.kind is Kind.BOOL:
        given = "nothing" if is_null(node) else describe(node)
        findings.error(
            node.start,
            path,
            "mount",
            f"{path} must name a file or folder, not {given}",
            "write {/data: ./data}",
        )
        return False
    text = _filled(node.text, envs)
    kind, why = (
        source_kind(text),
        "" if _VARIABLE.search(text) and not final else why_not_source(text),
    )
    if kind is SourceKind.OTHER:
        hint = "copy the data in `setup` by the tool of its store"
        findings.cannot_honour(
            node.start, path, "file_mounts", f"{path}: {why_not_source(text)}", hint
        )
        return False
    if why:
        if "password" in why:
            findings.hide([node])
        findings.error(
            node.start,
            path,
            "mount",
            f"{path}: {why}",
            "write {/data: s3://BUCKET/PATH} or {/data/x.bin: https://HOST/x.bin}",
        )
        return False
    if kind is SourceKind.WEB and is_plain_http(text):
        findings.warn(
            node.start,
            path,
            "plain-http",
            f"{path}: http:// is not encrypted, so what arrives may have been changed on its way",
        )
    return True


def _mapped_sources(
    target: str, node: Mapping, path: str, envs: Map[str, str], findings: Findings
) -> list[tuple[str, Scalar]]:
    """The sources of `{source: ./local or s3://b/x, mode: COPY}`, which is a plain copy; every other map means a mounted bucket."""
    before = findings.problem_count
    given = {name: value for name, value, _ in members(node, Where.MOUNT, path, findings)}
    mode = (
        choice(given["mode"], join(path, "mode"), findings, _MODES) if "mode" in given else "mount"
    )
    for name, words in (("store", _STORES), ("type", _TYPES)):
        if name in given:
            choice(given[name], join(path, name), findings, words)
    if "type" in given and mode in ("copy", "mount"):
        hint = "write mode: MOUNT_CACHED, or remove type"
        findings.error(
            given["type"].start,
            join(path, "type"),
            "mount",
            f"{path}: type goes with mode MOUNT_CACHED only",
            hint,
        )
    if not given.keys() & {"source", "name"} and findings.problem_count == before:
        findings.error(
            node.start,
            path,
            "mount",
            f"{path} names no source",
            "write {source: ./data, mode: COPY}",
        )
    if findings.problem_count > before:
        return []
    source = given.get("source")
    items = (
        source.items
        if isinstance(source, Sequence)
        else (source,)
        if source is not None and not is_null(source)
        else ()
    )
    if mode != "copy" or not items:
        _refuse_mount(node, items, path, envs, findings)
        return []
    good = [
        item
        for item in items
        if isinstance(item, Scalar) and _source_is_good(item, path, envs, findings)
    ]
    for item in items:
        _no_source(item, path, findings)
    if len(good) < len(items):
        return []
    if given.keys() & {"name", "store", "persistent"} and any(
        source_kind(_filled(item.text, envs)) is SourceKind.LOCAL for item in good
    ):
        findings.note(
            node.start,
            path,
            "no-bucket",
            f"{path}: the files are copied straight to the machine; no bucket is made",
        )
    if not isinstance(source, Sequence):
        return [(target, good[0])]
    return [
        (
            f"{target}/{PurePosixPath(shown_source(item.text).removesuffix('?…')).name or 'source'}",
            item,
        )
        for item in good
    ]


def _refuse_mount(
    node: Mapping, items: SequenceOf[Node], path: str, envs: Map[str, str], findings: Findings
) -> None:
    first = items[0] if items else None
    if isinstance(first, Scalar) and source_kind(_filled(first.text, envs)) is SourceKind.LOCAL:
        message = f"{path}: local files are copied, not mounted through a bucket{_LOST}"
        hint = f"write {{source: {quoted(first.text).strip('`')}, mode: COPY}}"
    else:
        message = f"{path}: buckets are copied (mode: COPY), not mounted{_LOST}"
        named = isinstance(first, Scalar) and not why_not_source(_filled(first.text, envs))
        copy = (
            f"write {{source: {first.text}, mode: COPY}}"
            if named and isinstance(first, Scalar)
            else _COPY_HINT
        )
        hint = (
            f"to have a copy {copy}; results go back by `aws s3 cp` or `gcloud storage cp` in `run`"
        )
    findings.cannot_honour(node.start, path, "file_mounts", message, hint)


def _filled(text: str, envs: Map[str, str]) -> str:
    """The text with the values of variables; `$$` is a dollar sign, unknown names stay."""

    def value(match: re.Match[str]) -> str:
        return "$" if match["dollar"] else envs.get(match["bare"] or match["braced"], match[0])

    return _VARIABLE.sub(value, text)


def fill_paths(spec: Spec, envs: Map[str, str]) -> Spec:
    """Replace `$VAR` and `${VAR}` in `workdir`, `file_mounts` and `outputs` by the values of the spec's variables; unknown names stay.

    Parameters
    ----------
    envs
        The final values, those given by the caller for null ones included.

    Raises
    ------
    SpecError
        If a source, a target or a repository turns out to be none.

    Examples
    --------
    >>> spec = Spec(workdir="./$WHAT", envs={"WHAT": None})
    >>> fill_paths(spec, {"WHAT": "code"}).workdir
    './code'
    """
    findings = Findings("")
    mounts = []
    for mount in spec.file_mounts:
        filled = replace(
            mount, target=_filled(mount.target, envs), source=_filled(mount.source, envs)
        )
        mounts.append(filled)
        at = Mark(mount.origin.line, 1, 0)
        key = Scalar(filled.target, Kind.TEXT, True, at, at)
        _target_is_good(key, mount.origin.path, findings)
        _source_is_good(
            Scalar(filled.source, Kind.TEXT, True, at, at),
            mount.origin.path,
            {},
            findings,
            final=True,
        )
    workdir = spec.workdir
    if isinstance(workdir, Repository):
        workdir = Repository(_filled(workdir.url, envs), _filled(workdir.ref, envs))
        for name, text in (("url", workdir.url), ("ref", workdir.ref)):
            if text or name == "url":
                at = Mark(1, 1, 0)
                _check_git(name, Scalar(text, Kind.TEXT, True, at, at), findings, final=True)
    else:
        workdir = _filled(workdir, envs)
    findings.raise_if_any()
    outputs = tuple(
        replace(m, target=_filled(m.target, envs), source=_filled(m.source, envs))
        for m in spec.outputs
    )
    return replace(spec, workdir=workdir, file_mounts=tuple(mounts), outputs=outputs)
