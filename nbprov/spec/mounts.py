"""Reading `workdir` and `file_mounts`, and filling in the variables of their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from dataclasses import replace

from nbprov.model.spec import Mount, Origin, Spec

from .nodes import Kind, Mapping, Mark, Node, Scalar, describe, is_null, quoted
from .problems import Findings
from .values import as_mapping, join, text_of

WORKDIR_TARGET = "~/sky_workdir"
"""Where `workdir` goes on the machine."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_BUCKET_HINT = "copy the data in `setup`"


def read_workdir(node: Node, findings: Findings) -> str | None:
    """Read a local folder; None, and a problem, for anything else."""
    path = "workdir"
    if isinstance(node, Mapping):
        findings.cannot_honour(node.start, path, path, "a git workdir is not used yet", "clone it in `setup`")
        return None
    text = text_of(node, path, findings, wants="a local folder")
    if text is None:
        return None
    if not text.strip():
        findings.error(node.start, path, "value", "workdir names no folder", "write workdir: . for the notebook's folder")
    elif _URI.match(text):
        findings.error(node.start, path, "value", "workdir must be a local folder, not a URI", "use file_mounts, or clone in `setup`")
    return text


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
        source = _local_source(value, path, envs, findings)
        if source is None or _uses_secret(source, path, secrets, findings):
            continue
        mounts[key.text] = Mount(key.text, source.text, Origin(path, key.start.line))
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
    named = {a or b for a, b in _VARIABLE.findall(scalar.text)} & secrets
    if named:
        message = f"a secret must not become part of a path: ${min(named)}"
        findings.error(scalar.start, path, "mount", message, f"move {min(named)} to envs")
    return bool(named)


def _local_source(node: Node, path: str, envs: Map[str, str], findings: Findings) -> Scalar | None:
    if isinstance(node, Mapping):
        return _mapped_source(node, path, envs, findings)
    if not isinstance(node, Scalar) or is_null(node) or not node.text.strip() or node.kind is Kind.BOOL:
        given = "nothing" if is_null(node) else describe(node)
        findings.error(node.start, path, "mount", f"{path} must name a local file or folder, not {given}", "write {/data: ./data}")
        return None
    if _URI.match(_filled(node.text, envs)):
        message = f"{path}: copies from a bucket or URI are not made yet"
        findings.cannot_honour(node.start, path, "file_mounts", message, _BUCKET_HINT)
        return None
    return node


def _mapped_source(node: Mapping, path: str, envs: Map[str, str], findings: Findings) -> Scalar | None:
    """The source of `{source: ./local, mode: COPY}`, which is a plain copy; every other map means a bucket."""
    source, mode = node.get("source"), node.get("mode")
    copies = isinstance(mode, Scalar) and mode.text.upper() == "COPY" and len(node.pairs) == 2
    if copies and isinstance(source, Scalar) and source.text.strip() and not _URI.match(_filled(source.text, envs)):
        return source
    written = mode.text.upper() if isinstance(mode, Scalar) and mode.kind is Kind.TEXT else "MOUNT"
    lost = "" if written == "COPY" else ", and what is written there would be lost with the machine"
    message = f"{path}: buckets are not mounted or copied yet{lost}"
    findings.cannot_honour(node.start, path, "file_mounts", message, _BUCKET_HINT)
    return None


def _filled(text: str, envs: Map[str, str]) -> str:
    return _VARIABLE.sub(lambda m: envs.get(m[1] or m[2], m[0]), text)


def fill_paths(spec: Spec, envs: Map[str, str]) -> Spec:
    """Replace `$VAR` and `${VAR}` in `workdir` and `file_mounts` by the values of the spec's variables; unknown names stay.

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
    return replace(spec, workdir=_filled(spec.workdir, envs), file_mounts=tuple(mounts))
