"""Read `file_mounts`, and fill in the variables of paths."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import PurePosixPath

from nbprov.model.remarks import Origin
from nbprov.model.sources import (
    WORKDIR,
    Mount,
    Repository,
    SourceKind,
    is_plain_http,
    shown_source,
    source_kind,
    why_not_source,
)
from nbprov.model.spec import Spec
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    describe,
    is_null,
    quoted,
)

from .field_reader import as_mapping, choice, join, members
from .path_variables import VARIABLE, filled, holds_unfit, uses_secret
from .workdir import check_git

WORKDIR_TARGET = f"~/{WORKDIR}"
"""The folder on the machine that `workdir` is copied to."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_MODES = ("copy", "mount", "mount_cached")
_STORES = ("s3", "gcs", "azure", "r2", "ibm", "oci", "nebius", "coreweave", "vastdata", "volume")
_TYPES = ("model_checkpoint_ro", "model_checkpoint_rw", "dataset_ro", "dataset_rw")
_COPY_HINT = "write {source: s3://BUCKET/PATH, mode: COPY}, or {/data: s3://BUCKET/PATH}"
_LOST = ": what is written there would be lost with the machine"


def read_mounts(
    node: Node, envs: Map[str, str], secrets: frozenset[str], findings: Findings
) -> tuple[Mount, ...] | None:
    """Read `file_mounts`: local paths, URIs, and maps with mode COPY.

    URIs start with `s3://`, `gs://`, `r2://` or `https://`. Mounted buckets are reported.

    Parameters
    ----------
    envs
        The values known so far, to check sources with. The result keeps its `$VAR`, which
        `fill_paths` replaces once all values are known.
    secrets
        Names whose values must not become part of a path.
    """
    mapping = as_mapping(node, "file_mounts", findings, "write file_mounts: {/data: ./data}")
    if mapping is None:
        return None
    mounts: dict[str, Mount] = {}
    for key, value in mapping.pairs:
        path = join("file_mounts", key.text)
        if not _target_is_good(key, path, findings) or uses_secret(key, path, secrets, findings):
            continue
        for target, source in _local_sources(key.text, value, path, envs, findings):
            if not uses_secret(source, path, secrets, findings):
                mounts[target] = Mount(target, source.text, Origin(path, key.start.line))
    return tuple(mounts.values())


def _target_is_good(key: Scalar, path: str, findings: Findings) -> bool:
    if holds_unfit(key, path, findings):
        return False
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


def _local_sources(
    target: str, node: Node, path: str, envs: Map[str, str], findings: Findings
) -> list[tuple[str, Scalar]]:
    """The (target, source) pairs of a mount; several if `source` is a list."""
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
    """Check a source, a path or a URI, with the values known so far.

    A source that still holds a variable passes, unless `final`.
    """
    if is_null(node) or not node.text.strip() or node.kind is ScalarKind.BOOL:
        given = "nothing" if is_null(node) else describe(node)
        findings.error(
            node.start,
            path,
            "mount",
            f"{path} must name a file or folder, not {given}",
            "write {/data: ./data}",
        )
        return False
    if holds_unfit(node, path, findings):
        return False
    text = filled(node.text, envs)
    kind, why = (
        source_kind(text),
        "" if VARIABLE.search(text) and not final else why_not_source(text),
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
    """The sources of `{source: ./local or s3://b/x, mode: COPY}`.

    Every other map asks for a mounted bucket, which is refused.
    """
    fields = _mount_fields(node, path, findings)
    if fields is None:
        return []
    given, mode = fields
    source = given.get("source")
    items: SequenceOf[Node] = ()
    if isinstance(source, Sequence):
        items = source.items
    elif source is not None and not is_null(source):
        items = (source,)
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
    is_local = any(source_kind(filled(item.text, envs)) is SourceKind.LOCAL for item in good)
    if is_local and given.keys() & {"name", "store", "persistent"}:
        findings.note(
            node.start,
            path,
            "no-bucket",
            f"{path}: the files are copied straight to the machine; no bucket is made",
        )
    if not isinstance(source, Sequence):
        return [(target, good[0])]
    return [(f"{target}/{_base_name(item.text)}", item) for item in good]


def _mount_fields(
    node: Mapping, path: str, findings: Findings
) -> tuple[dict[str, Node], str | None] | None:
    """Read the fields of a mount's map, and its mode.

    None, and problems, if they do not fit together.
    """
    before = findings.problem_count
    given = {name: value for name, value, _ in members(node, Section.MOUNT, path, findings)}
    mode: str | None = "mount"
    if "mode" in given:
        mode = choice(given["mode"], join(path, "mode"), findings, _MODES)
    for name, words in (("store", _STORES), ("type", _TYPES)):
        if name in given:
            choice(given[name], join(path, name), findings, words)
    if "type" in given and mode in ("copy", "mount"):
        findings.error(
            given["type"].start,
            join(path, "type"),
            "mount",
            f"{path}: type goes with mode MOUNT_CACHED only",
            "write mode: MOUNT_CACHED, or remove type",
        )
    if not given.keys() & {"source", "name"} and findings.problem_count == before:
        findings.error(
            node.start,
            path,
            "mount",
            f"{path} names no source",
            "write {source: ./data, mode: COPY}",
        )
    return (given, mode) if findings.problem_count == before else None


def _base_name(source: str) -> str:
    return PurePosixPath(shown_source(source).removesuffix("?…")).name or "source"


def _refuse_mount(
    node: Mapping, items: SequenceOf[Node], path: str, envs: Map[str, str], findings: Findings
) -> None:
    first = items[0] if items else None
    if isinstance(first, Scalar) and source_kind(filled(first.text, envs)) is SourceKind.LOCAL:
        message = f"{path}: local files are copied, not mounted through a bucket{_LOST}"
        hint = f"write {{source: {quoted(first.text).strip('`')}, mode: COPY}}"
    else:
        message = f"{path}: buckets are copied (mode: COPY), not mounted{_LOST}"
        named = isinstance(first, Scalar) and not why_not_source(filled(first.text, envs))
        copy = (
            f"write {{source: {first.text}, mode: COPY}}"
            if named and isinstance(first, Scalar)
            else _COPY_HINT
        )
        hint = (
            f"to have a copy {copy}; results go back by `aws s3 cp` or `gcloud storage cp` in `run`"
        )
    findings.cannot_honour(node.start, path, "file_mounts", message, hint)


def fill_paths(spec: Spec, envs: Map[str, str]) -> Spec:
    """Replace `$VAR` and `${VAR}` in `workdir`, `file_mounts` and `outputs`; unknown names stay.

    Parameters
    ----------
    envs
        The final values of the spec's variables, those that the caller gave included.

    Raises
    ------
    SpecError
        If a source, a target or a repository turns out to be invalid.

    Examples
    --------
    >>> spec = Spec(workdir="./$WHAT", envs={"WHAT": None})
    >>> fill_paths(spec, {"WHAT": "code"}).workdir
    './code'
    """
    findings = Findings("")
    mounts = []
    for mount in spec.file_mounts:
        mount = replace(mount, target=filled(mount.target, envs), source=filled(mount.source, envs))
        mounts.append(mount)
        at = Mark(mount.origin.line, 1, 0)
        key = Scalar(mount.target, ScalarKind.TEXT, True, at, at)
        _target_is_good(key, mount.origin.path, findings)
        _source_is_good(
            Scalar(mount.source, ScalarKind.TEXT, True, at, at),
            mount.origin.path,
            {},
            findings,
            final=True,
        )
    workdir = spec.workdir
    if isinstance(workdir, Repository):
        workdir = Repository(filled(workdir.url, envs), filled(workdir.ref, envs))
        for name, text in (("url", workdir.url), ("ref", workdir.ref)):
            if text or name == "url":
                at = Mark(1, 1, 0)
                check_git(name, Scalar(text, ScalarKind.TEXT, True, at, at), findings, final=True)
    else:
        workdir = filled(workdir, envs)
    findings.raise_if_any()
    outputs = tuple(
        replace(m, target=filled(m.target, envs), source=filled(m.source, envs))
        for m in spec.outputs
    )
    return replace(spec, workdir=workdir, file_mounts=tuple(mounts), outputs=outputs)
