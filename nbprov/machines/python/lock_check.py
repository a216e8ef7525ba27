"""Check that a `uv.lock` belongs to the `pyproject.toml` beside it, from the two texts alone.

No resolver and no network is used, so only certain differences count: a requirement that one has
and the other lacks, or a different version bound. What uv rewrites in its own words (markers,
sources, ranges of Python) is left to uv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nbprov.model.text.plain import one_line

NAMED = 3
"""Differences that are listed."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;]*)")
_BOUND = re.compile(r"(?:==|!=|~=|>=|<=|>|<)(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))*(?:\.\*)?")
_PACKAGE = "\n[[package]]\n"

Bounds = dict[str, set[frozenset[str]] | None]
"""Version bounds by name, a set for each place that names it; None if they are not comparable."""


class UnreadableFile(Exception):
    """One of the two texts is malformed."""


def why_stale(lock: str, project: str) -> str:
    """Return in words what a lock does not know of its project; empty if nothing is found.

    Raises
    ------
    UnreadableFile
        Naming the file that is not TOML.

    Examples
    --------
    >>> lock = 'version = 1\\n\\n[[package]]\\nname = "app"\\nsource = { virtual = "." }\\n'
    >>> why_stale(lock, '[project]\\nname = "app"\\ndependencies = ["six>=1"]')
    'six is not in the lock'
    """
    table = _toml(project, "pyproject.toml")
    about = table.get("project")
    name = about.get("name") if isinstance(about, dict) else None
    if not isinstance(about, dict) or not isinstance(name, str):
        return ""
    name = plain(name)
    package = _package(lock.replace("\r\n", "\n"), name)
    if package is None:
        return f"the lock does not have the project {name}"
    known = _table(package.get("metadata"))
    told = []
    dynamic = about.get("dynamic")
    if not (
        isinstance(dynamic, list)
        and {"dependencies", "optional-dependencies"} & set(map(str, dynamic))
    ):
        lists = [about.get("dependencies"), *_table(about.get("optional-dependencies")).values()]
        told += _differences(_asked(lists), _locked(known.get("requires-dist")), name)
    asked, locked = (
        _groups(table),
        {plain(key): value for key, value in _table(known.get("requires-dev")).items()},
    )
    for group in sorted(asked.keys() | locked.keys()):
        told += _differences(
            _asked([asked.get(group, [])]), _locked(locked.get(group)), name, f" (group {group})"
        )
    said = ", ".join(told[:NAMED]) + (f" and {len(told) - NAMED} more" if len(told) > NAMED else "")
    return one_line(said)


def plain(name: str) -> str:
    """Return a name as uv writes it.

    Examples
    --------
    >>> plain("My_Package")
    'my-package'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _toml(text: str, name: str) -> dict[str, Any]:
    # Imported here since every session loads this module, and few specs have a lock.
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{name} cannot be read: {str(error)[:200]}") from None


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _package(lock: str, name: str) -> Mapping[str, Any] | None:
    """Return a lock's entry for its own project.

    The whole lock, which may have megabytes, is parsed only if uv did not write it.
    """
    for part in lock.split(_PACKAGE)[1:]:
        if part.startswith(f'name = "{name}"\n'):
            found = _own(_toml(_PACKAGE + part, "uv.lock"), name)
            if found is not None:
                return found
    return _own(_toml(lock, "uv.lock"), name)


def _own(table: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    packages = table.get("package")
    for package in packages if isinstance(packages, list) else []:
        source = _table(_table(package).get("source"))
        if _table(package).get("name") == name and source.keys() & {
            "virtual",
            "editable",
            "directory",
        }:
            return _table(package)
    return None


def _groups(table: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the dependency groups with the groups they include; `dev` also by its older name."""
    groups = {plain(key): value for key, value in _table(table.get("dependency-groups")).items()}

    def flat(group: str) -> list[str]:
        # Each group once, since groups may include each other in a circle.
        found, open_ones, seen = [], [group], {group}
        while open_ones:
            entries = groups.get(open_ones.pop())
            for one in entries if isinstance(entries, list) else []:
                if isinstance(one, str):
                    found.append(one)
                elif (included := plain(str(_table(one).get("include-group", "")))) not in seen:
                    seen.add(included)
                    open_ones.append(included)
        return found

    made = {group: flat(group) for group in groups}
    older = _table(_table(table.get("tool")).get("uv")).get("dev-dependencies")
    if isinstance(older, list):
        made["dev"] = made.get("dev", []) + [one for one in older if isinstance(one, str)]
    return made


def _asked(lists: Iterable[object]) -> Bounds:
    found: Bounds = {}
    for one in lists:
        for text in one if isinstance(one, list) else []:
            if isinstance(text, str) and (match := _REQUIREMENT.match(text)):
                bounds = match[2].strip()
                _add(found, plain(match[1]), bounds[1:-1] if bounds[:1] == "(" else bounds)
    return found


def _locked(entries: object) -> Bounds:
    found: Bounds = {}
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(name := _table(entry).get("name"), str):
            is_plain = entry.keys() <= {"name", "extras", "marker", "specifier", "index"}
            _add(found, name, str(entry.get("specifier", "")) if is_plain else "@")
    return found


def _add(found: Bounds, name: str, bounds: str) -> None:
    words = frozenset("".join(word.split()) for word in bounds.split(",") if word.strip())
    before = found.setdefault(name, set())
    if before is None or not all(_BOUND.fullmatch(word) for word in words):
        found[name] = None
    else:
        before.add(words)


def _differences(asked: Bounds, locked: Bounds, own: str, where: str = "") -> list[str]:
    told = [
        f"{name} is not in the lock{where}" for name in sorted(asked.keys() - locked.keys() - {own})
    ]
    told += [
        f"{name} is in the lock alone{where}"
        for name in sorted(locked.keys() - asked.keys() - {own})
    ]
    for name in sorted(asked.keys() & locked.keys() - {own}):
        wanted, held = asked[name], locked[name]
        if wanted is None or held is None or wanted == held:
            continue
        more, less = _words(wanted - held), _words(held - wanted)
        said = (
            f"is {more} in pyproject.toml and {less} in the lock"
            if more and less
            else "has other bounds in pyproject.toml than in the lock"
        )
        told.append(f"{name} {said}{where}")
    return told


def _words(bounds: Iterable[frozenset[str]]) -> str:
    return " and ".join(sorted(",".join(sorted(one)) or "of any version" for one in bounds))
