"""Read `python`, the interpreter and packages of every node, and `on_setup_failure`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from urllib.parse import urlsplit

from nbprov.model.spec import DOWN, KEEP, PythonEnvironment
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import (
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    as_given,
    is_null,
    is_off,
    quoted,
)

from .field_reader import choice, converted, join, members
from .path_variables import holds_unfit

OLDEST = (3, 8)
"""The oldest version that the agent runs on, and that ipykernel has releases for."""
MOST_REQUIREMENTS = 1000
"""A cell with more is a mistake; a file may hold more."""
LOCK = "uv.lock"
FILES = (".txt", ".in", ".toml")
"""Endings of files that are read as requirements."""

_FORMS = (
    'write python: "3.12", python: requirements.txt, '
    'or {version: "3.12", requirements: [numpy, "pandas>=2"]}'
)
_VERSION = re.compile(r"3\.([0-9]{1,2})(\.[0-9]{1,3})?")
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[^\]]*\])?\s*(?:[@;(<>=!~].*)?"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s;]+")


def read_python(node: Node, path: str, findings: Findings) -> PythonEnvironment | None:
    """Read a version, a file, a list of requirements, or a map of these.

    None for `false`; also, with a problem, for anything else.
    """
    if is_off(node):
        return None
    if isinstance(node, Sequence):
        found = _requirements(node, path, findings)
        return PythonEnvironment(requirements=found) if found else None
    if isinstance(node, Scalar):
        return _short(node, path, findings)
    before = findings.problem_count
    environment, keys = PythonEnvironment(), dict[str, Node]()
    for name, value, here in members(node, Section.PYTHON, path, findings):
        keys[name] = value
        if name == "version":
            version = converted(value, here, findings, python_version, wants="a version")
            environment = replace(environment, version=version or "")
        elif name == "lock":
            environment = replace(environment, lock=_lock(value, here, findings))
        elif isinstance(value, Sequence):
            environment = replace(environment, requirements=_requirements(value, here, findings))
        else:
            environment = replace(environment, file=_file(value, here, findings))
    if {"lock", "requirements"} <= keys.keys():
        message = (
            f"{path}.requirements and {path}.lock cannot be given together: a lock holds all "
            "packages"
        )
        findings.error(
            keys["requirements"].start,
            join(path, "requirements"),
            "both",
            message,
            "keep one of them; uv add NAME adds to a lock",
        )
    if findings.problem_count > before:
        return None
    if not keys:
        findings.error(node.start, path, "value", f"{path} says nothing", _FORMS)
        return None
    return environment


def _short(node: Scalar, path: str, findings: Findings) -> PythonEnvironment | None:
    """The forms of a single word."""
    if holds_unfit(node, path, findings):
        return None
    text = node.text.strip()
    if node.kind is not ScalarKind.BOOL and _is_lock(text):
        return PythonEnvironment(lock=text)
    if node.kind is ScalarKind.TEXT and text.lower().endswith(FILES) and not _URL.match(text):
        return PythonEnvironment(file=text)
    if (
        node.kind is ScalarKind.TEXT
        and not text[:1].isdigit()
        and not text.lower().startswith("python")
    ):
        message = f"{path}: {quoted(text)} is neither a version nor a file of requirements"
        hint = f"write {path}: [{text}]" if _REQUIREMENT.fullmatch(text) else _FORMS
        findings.error(node.start, path, "value", message, hint)
        return None
    version = converted(node, path, findings, python_version, wants="a version, a file or a map")
    return None if version is None else PythonEnvironment(version=version)


def python_version(text: str) -> str:
    """A version of Python 3, as `3.12` or `3.12.4`.

    Examples
    --------
    >>> python_version("3.10"), python_version("Python 3.12.4")
    ('3.10', '3.12.4')
    """
    bare = re.sub(r"^python\s*", "", text.strip(), flags=re.IGNORECASE)
    match = _VERSION.fullmatch(bare)
    if match is None:
        raise InvalidValue(
            f"{quoted(text)} is not a version of Python 3",
            'write "3.12", or "3.12.4" for that very release',
        )
    if int(match[1]) < OLDEST[1]:
        hint = 'did you mean "3.10"?' if bare == "3.1" else 'write "3.12"'
        raise InvalidValue(
            f"Python {bare} is older than {OLDEST[0]}.{OLDEST[1]}, the oldest that can be used",
            hint,
        )
    return bare


def _requirements(node: Sequence, path: str, findings: Findings) -> tuple[str, ...]:
    if not node.items or len(node.items) > MOST_REQUIREMENTS:
        message = (
            f"{path} lists {len(node.items)} requirements; from 1 to {MOST_REQUIREMENTS} are read"
        )
        findings.error(
            node.start, path, "value", message, 'write [numpy, "pandas>=2"], or the name of a file'
        )
        return ()
    found = [
        _requirement(item, f"{path}[{number}]", findings) for number, item in enumerate(node.items)
    ]
    return tuple(dict.fromkeys(one for one in found if one))


def _requirement(node: Node, path: str, findings: Findings) -> str:
    text = (
        " ".join(node.text.split())
        if isinstance(node, Scalar) and node.kind is ScalarKind.TEXT
        else ""
    )
    if not text or not _REQUIREMENT.fullmatch(text) or "\0" in text:
        given = "nothing" if is_null(node) else as_given(node)
        if text.startswith("-"):
            hint = "options of pip stand in a file: requirements: requirements.txt"
        elif text.startswith((".", "/", "~")) or "://" in text:
            hint = (
                "a package from a URL is written `name @ URL`; one from a local folder is "
                "installed by setup"
            )
        else:
            hint = 'write a name, with a version where it matters: "pandas>=2"'
        findings.error(node.start, path, "value", f"{path}: {given} is not a requirement", hint)
        return ""
    for url in _URL.findall(text):
        if _password(url) and not findings.is_from_variable(node.start):
            words = (
                f"{path}: the password in this URL is saved in the notebook; a variable of uv "
                "under `secrets` is not"
            )
            findings.warn(node.start, path, "literal-secret", words)
    return text


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _file(node: Node, path: str, findings: Findings) -> str:
    text = _path(
        node, path, findings, f'write {path}: requirements.txt, or a list: [numpy, "pandas>=2"]'
    )
    if text and _is_lock(text):
        findings.error(
            node.start, path, "value", f"{path}: {quoted(text)} is a lock", f"write lock: {text}"
        )
        return ""
    if text and not text.lower().endswith(FILES):
        hint = (
            f"write {path}: [{text}]"
            if _REQUIREMENT.fullmatch(text) and "/" not in text
            else "its name ends in .txt, .in or .toml"
        )
        findings.error(
            node.start, path, "value", f"{path}: {quoted(text)} is not a file of requirements", hint
        )
        return ""
    return text


def _lock(node: Node, path: str, findings: Findings) -> str:
    text = _path(node, path, findings, f"write {path}: {LOCK}, or the folder that holds it")
    name = PurePath(text.replace("\\", "/")).name
    if "." in name.strip(".") and not _is_lock(text) and name.lower().endswith((*FILES, ".lock")):
        hint = f"name {LOCK} or its folder; requirements takes other files"
        findings.error(node.start, path, "value", f"{path}: {quoted(text)} is not a {LOCK}", hint)
        return ""
    return text


def _is_lock(text: str) -> bool:
    return PurePath(text.replace("\\", "/")).name == LOCK


def _path(node: Node, path: str, findings: Findings, hint: str) -> str:
    if not isinstance(node, Scalar) or node.kind is not ScalarKind.TEXT or not node.text.strip():
        given = "nothing" if is_null(node) else as_given(node)
        findings.error(node.start, path, "type", f"{path} must name a file here, not {given}", hint)
        return ""
    if holds_unfit(node, path, findings):
        return ""
    text = node.text.strip()
    if _URL.match(text):
        findings.error(node.start, path, "value", f"{path} is a URI: the file is read here", hint)
        return ""
    return text


def read_on_setup_failure(node: Node, path: str, findings: Findings) -> str | None:
    """Read what happens to a cluster whose setup failed."""
    return choice(node, path, findings, (KEEP, DOWN))
