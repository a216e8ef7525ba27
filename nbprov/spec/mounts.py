"""Reading `workdir` and `file_mounts`, and filling in the variables of their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from dataclasses import replace
from pathlib import PurePosixPath

from nbprov.model.spec import Mount, Origin, Spec

from .fields import Where
from .nodes import Kind, Mapping, Mark, Node, Scalar, Sequence, describe, is_null, quoted
from .problems import Findings
from .values import as_mapping, choice, join, members, text_of

WORKDIR_TARGET = "~/sky_workdir"
"""Where `workdir` goes on the machine."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})")
_MODES = ("copy", "mount", "mount_cached")
_STORES = ("s3", "gcs", "azure", "r2", "ibm", "oci", "nebius", "coreweave", "vastdata", "volume")
_TYPES = ("model_checkpoint_ro", "model_checkpoint_rw", "dataset_ro", "dataset_rw")
_BUCKET_HINT = "copy the data in `setup`, as in: aws s3 cp --recursive s3://bucket/x /data"
_LOST = ", and what is written there would be lost with the machine"


def read_workdir(node: Node, findings: Findings) -> str | None:
    """Read a local folder; None, and a problem, for anything else."""
    path = "workdir"
    if isinstance(node, Mapping):
        _refuse_git(node, path, findings)
        return None
    text = text_of(node, path, findings, wants="a local folder")
    if text is None:
        return None
    if not text.strip():
        findings.error(node.start, path, "value", "workdir names no folder", "write workdir: . for the notebook's folder")
    elif _URI.match(text):
        findings.error(node.start, path, "value", "workdir must be a local folder, not a URI", "use file_mounts, or clone in `setup`")
    return text


def _refuse_git(node: Mapping, path: str, findings: Findings) -> None:
    """`{url: …, ref: …}`: known, checked, and not done yet."""
    before = findings.problem_count
    given = {}
    for key, value in node.pairs:
        here = join(path, key.text)
        if key.text not in ("url", "ref"):
            findings.error(key.start, here, "unknown-field", f"unknown field {quoted(key.text)} under `workdir`", "it takes url and ref")
        elif not is_null(value):
            given[key.text] = text_of(value, here, findings, wants="text") or ""
    if not given.get("url") and findings.problem_count == before:
        findings.error(node.start, path, "missing", "workdir does not say its url", "write workdir: ./code, or {url: https://…, ref: main}")
    if findings.problem_count > before:
        return
    branch = f"-b {given['ref']} " if given.get("ref") else ""
    hint = f"write setup: git clone {branch}{given['url']} ~/sky_workdir"
    findings.cannot_honour(node.start, path, path, "a git workdir is not used yet", hint)


def read_mounts(node: Node, envs: Map[str, str], secrets: frozenset[str], findings: Findings) -> tuple[Mount, ...] | None:
    """Read the local entries of `file_mounts`; buckets and URIs are reported.

    Parameters
    ----------
    envs
        The values known so far. They only tell local paths from URIs: what is returned keeps its `$VAR`, which `fill_paths` replaces
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
        findings.error(key.start, path, "mount", wrong, "write file_mounts: {/data: ./data}, target first")
    return not wrong


def _uses_secret(scalar: Scalar, path: str, secrets: frozenset[str], findings: Findings) -> bool:
    named = {match["bare"] or match["braced"] for match in _VARIABLE.finditer(scalar.text)} & secrets
    if named:
        message = f"a secret must not become part of a path: ${min(named)}"
        findings.error(scalar.start, path, "mount", message, f"move {min(named)} to envs")
    return bool(named)


def _local_sources(target: str, node: Node, path: str, envs: Map[str, str], findings: Findings) -> list[tuple[str, Scalar]]:
    """What is copied to a target: (target, source) pairs; several where `source` is a list."""
    if isinstance(node, Mapping):
        return _mapped_sources(target, node, path, envs, findings)
    source = _local_source(node, path, envs, findings)
    return [] if source is None else [(target, source)]


def _local_source(node: Node, path: str, envs: Map[str, str], findings: Findings) -> Scalar | None:
    if not isinstance(node, Scalar) or is_null(node) or not node.text.strip() or node.kind is Kind.BOOL:
        given = "nothing" if is_null(node) else describe(node)
        findings.error(node.start, path, "mount", f"{path} must name a local file or folder, not {given}", "write {/data: ./data}")
        return None
    text = _filled(node.text, envs)
    if not _URI.match(text):
        return node
    if text.lower().startswith(("http://", "https://")):
        place = path.removeprefix("file_mounts.")
        hint = f"write setup: curl -fsSL --create-dirs -o {place} URL"
        findings.cannot_honour(node.start, path, "file_mounts", f"{path}: files are not fetched from the web yet", hint)
    else:
        findings.cannot_honour(node.start, path, "file_mounts", f"{path}: copies from a bucket are not made yet", _BUCKET_HINT)
    return None


def _mapped_sources(target: str, node: Mapping, path: str, envs: Map[str, str], findings: Findings) -> list[tuple[str, Scalar]]:
    """The sources of `{source: ./local, mode: COPY}`, which is a plain copy; every other map means a bucket."""
    before = findings.problem_count
    given = {name: value for name, value, _ in members(node, Where.MOUNT, path, findings)}
    mode = choice(given["mode"], join(path, "mode"), findings, _MODES) if "mode" in given else "mount"
    for name, words in (("store", _STORES), ("type", _TYPES)):
        if name in given:
            choice(given[name], join(path, name), findings, words)
    if "type" in given and mode in ("copy", "mount"):
        hint = "write mode: MOUNT_CACHED, or remove type"
        findings.error(given["type"].start, join(path, "type"), "mount", f"{path}: type goes with mode MOUNT_CACHED only", hint)
    if not given.keys() & {"source", "name"} and findings.problem_count == before:
        findings.error(node.start, path, "mount", f"{path} names no source", "write {source: ./data, mode: COPY}")
    if findings.problem_count > before:
        return []
    source = given.get("source")
    items = source.items if isinstance(source, Sequence) else (source,) if source is not None else ()
    local = [item for item in items if isinstance(item, Scalar) and not is_null(item) and not _URI.match(_filled(item.text, envs))]
    if not items or len(local) < len(items):
        _refuse_bucket(node.start, mode or "mount", path, findings)
        return []
    if mode != "copy":
        message = f"{path}: local files are copied, not mounted through a bucket{_LOST}"
        hint = f"write {{source: {quoted(local[0].text).strip('`')}, mode: COPY}}"
        findings.cannot_honour(node.start, path, "file_mounts", message, hint)
        return []
    if given.keys() & {"name", "store", "persistent"}:
        findings.note(node.start, path, "no-bucket", f"{path}: the files are copied straight to the machine; no bucket is made")
    if not isinstance(source, Sequence):
        return [(target, local[0])]
    return [(f"{target}/{PurePosixPath(item.text).name or 'source'}", item) for item in local]


def _refuse_bucket(at: Mark, mode: str, path: str, findings: Findings) -> None:
    lost = "" if mode == "copy" else _LOST
    message = f"{path}: buckets are not mounted or copied (mode: COPY) yet{lost}"
    findings.cannot_honour(at, path, "file_mounts", message, _BUCKET_HINT)


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
        If a source turns out to be a bucket or URI, or a target to be none.

    Examples
    --------
    >>> spec = Spec(workdir="./$WHAT", envs={"WHAT": None})
    >>> fill_paths(spec, {"WHAT": "code"}).workdir
    './code'
    """
    findings = Findings("")
    mounts = []
    for mount in spec.file_mounts:
        filled = replace(mount, target=_filled(mount.target, envs), source=_filled(mount.source, envs))
        mounts.append(filled)
        at = Mark(mount.origin.line, 1, 0)
        key = Scalar(filled.target, Kind.TEXT, True, at, at)
        _target_is_good(key, mount.origin.path, findings)
        _local_source(Scalar(filled.source, Kind.TEXT, True, at, at), mount.origin.path, {}, findings)
    findings.raise_if_any()
    outputs = tuple(replace(m, target=_filled(m.target, envs), source=_filled(m.source, envs)) for m in spec.outputs)
    return replace(spec, workdir=_filled(spec.workdir, envs), file_mounts=tuple(mounts), outputs=outputs)
