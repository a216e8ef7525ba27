"""The Python reference names every public function, method, attribute, exception and value, and
what it shows has a docstring."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import nbprov
from nbprov.api import Cluster, Operation, Run, aio
from nbprov.api.services.job_handle import JobHandle
from nbprov.api.services.tunnels import Tunnel
from nbprov.model.errors import NbprovError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("reference-*.md"))

DIRECTIVE = re.compile(r"^( *)\.\. (?:py:|auto)(\w+):: ([\w.]+)$")
MEMBERS = re.compile(r"^ +:members:(.*)$")

INSIDE = {
    "Run": {"driver", "follow", "until_set_up"},
    "Operation": {"interrupted", "until_done"},
    "ClusterStart": {"interrupted", "until_done"},
}
"""Public names of handles that are there for nbprov itself; no page shows them."""
MAGICS_ALONE = {"ScaffoldError", "VariableCopyError"}
"""Exceptions that no function or method raises: only the magics and a tool do."""
DATA = {
    "nbprov.__version__",
    "nbprov.catalog.query.Names",
    "nbprov.model.clock.Instant",
    "nbprov.model.clock.Seconds",
    "nbprov.model.money.Micros",
}
"""Objects whose text stands in the page, or below them in the source."""
HANDLES = [Cluster, Run, Operation, JobHandle, Tunnel]


@cache
def shown() -> dict[str, tuple[str, ...]]:
    """Return what the pages show: by full name, the members that are named with it.

    `*` stands for all members that have a docstring.
    """
    found: dict[str, tuple[str, ...]] = {}
    owner = ""
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            if directive := DIRECTIVE.match(line):
                indent, kind, name = directive.groups()
                if indent:
                    found[owner] = (*found[owner], name)
                elif kind != "module":
                    assert name not in found, f"{name} is shown twice"
                    owner, found[name] = name, ()
            elif members := MEMBERS.match(line):
                names = [one.strip() for one in members[1].split(",")] if members[1] else ["*"]
                found[owner] = (*found[owner], *names)
    return found


def live(name: str) -> Any:
    """Return the object that a full name means."""
    head, _, last = name.rpartition(".")
    if not head:
        return importlib.import_module(name)
    try:
        owner = importlib.import_module(head)
    except ImportError:
        owner = live(head)
    if inspect.isclass(owner):
        return reference().session_attribute(owner, last)
    return getattr(owner, last)


@cache
def reference() -> Any:
    """Return the module with which the site shows the pages."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("python_reference")
    finally:
        sys.path.remove(str(DOCS))


def public(owner: type) -> set[str]:
    """Return the public names of a class, also those that it has from bases of ours."""
    return {
        name
        for base in owner.__mro__
        if base.__module__.startswith("nbprov.")
        for name in vars(base)
        if not name.startswith("_")
    }


def test_every_export_is_shown() -> None:
    names = {f"nbprov.{name}" for name in nbprov.__all__} - {"nbprov.aio"}
    assert names - set(shown()) == set()


def test_every_coroutine_is_shown() -> None:
    coroutines = {
        f"nbprov.aio.{name}"
        for name, found in vars(aio).items()
        if inspect.iscoroutinefunction(found)
        and not name.startswith("_")
        and name != "run_async"  # imported there
    }
    assert len(coroutines) > 20
    assert coroutines - set(shown()) == set()


@pytest.mark.parametrize("owner", HANDLES, ids=lambda owner: owner.__name__)
def test_every_member_of_a_handle_is_shown(owner: type) -> None:
    (found,) = [members for name, members in shown().items() if name.endswith(f".{owner.__name__}")]
    names = {name for name in public(owner) if name not in found}
    if "*" in found:
        names = {name for name in names if not inspect.getdoc(vars(owner).get(name))}
    if owner is Run:
        names -= of_the_cluster()
    assert names == INSIDE.get(owner.__name__, set())


def of_the_cluster() -> set[str]:
    """Return the methods of a cluster that the page names as those of a run, too."""
    page = (DOCS / "reference-handles.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`Cluster\.(\w+)`", page))
    assert listed <= public(Cluster) & public(Run)
    return listed


def test_every_exception_is_shown() -> None:
    pattern = re.compile(r"^class (\w+)\((\w+)\):", re.MULTILINE)
    bases = {
        name: base
        for path in (ROOT / "nbprov").rglob("*.py")
        for name, base in pattern.findall(path.read_text(encoding="utf-8"))
    }

    def is_ours(name: str) -> bool:
        return name == NbprovError.__name__ or (name in bases and is_ours(bases[name]))

    names = {name for name in bases if is_ours(name) and not name.startswith("_")}
    assert len(names) > 40
    assert names - MAGICS_ALONE - {name.rpartition(".")[2] for name in shown()} == set()


def test_what_is_shown_has_a_summary() -> None:
    assert [name for name in everything() if not summary(name)] == []


def everything() -> list[str]:
    """Return the full names of all objects and members that the pages name."""
    names = [*shown()]
    names += [f"{name}.{one}" for name, members in shown().items() for one in members if one != "*"]
    return [name for name in names if name not in DATA]


def summary(name: str) -> str:
    """Return the first line of a docstring; empty if it is no sentence."""
    found = live(name)
    first = (inspect.getdoc(found) or "").partition("\n\n")[0]
    return first if first.endswith(".") and "\n---" not in first else ""


@pytest.mark.parametrize("name", [name for name in nbprov.__all__ if name in nbprov._VERBS])
def test_every_argument_of_a_function_is_explained(name: str) -> None:
    assert unexplained(getattr(nbprov, name)) == []


@pytest.mark.parametrize("owner", [Cluster, Run], ids=lambda owner: owner.__name__)
def test_every_argument_of_a_method_is_explained(owner: type) -> None:
    methods = {
        name: getattr(owner, name)
        for name in public(owner) - INSIDE.get(owner.__name__, set())
        if inspect.isfunction(getattr(owner, name))
    }
    assert {name: told for name, one in methods.items() if (told := unexplained(one))} == {}


def unexplained(function: Any) -> list[str]:
    """Return the arguments of a function that its docstring does not name."""
    text = inspect.getdoc(function) or ""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return [name for name in names if not re.search(rf"\b{name}\b", text)]


def test_signatures_are_short() -> None:
    arguments, result = reference().signature(nbprov.provision)
    assert arguments.startswith("(spec: Spec | str, name: str = '', *, race: int | None = None")
    assert "ask: Ask = ask_nobody" in arguments
    assert result == "Run | Cluster"
    assert reference().signature(Cluster.jobs) == ("()", "list[Job]")


def test_a_group_of_attributes_keeps_its_text_once() -> None:
    from nbprov.model.offers import Offer

    lines = reference().with_attributes(Offer, (inspect.getdoc(Offer) or "").splitlines())
    text = "\n".join(lines)
    assert text.startswith("One purchasable row")
    assert ".. py:attribute:: hourly\n   :type: Micros\n\n    Price of one node per hour." in text
    assert text.count("None if the source does not say.") == 1


def test_the_pages_are_linked() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    python = (DOCS / "python.md").read_text(encoding="utf-8")
    assert len(PAGES) == 4
    for page in PAGES:
        assert f"\n{page.stem}\n" in index
        assert f"({page.name})" in python
        head = page.read_text(encoding="utf-8").partition("```")[0]
        assert "rendered on the site" in re.sub(r"\s+", " ", head)
