"""The Python reference of the site: how autodoc shows what is in the pages `reference-*.md`.

Those pages name what they show; signatures and texts come from the source. `setup` registers this
with Sphinx:

- Signatures have the short names that the source writes, and no `self`. Classes have none: almost
  all of them are made by nbprov.
- Each field of a dataclass is an attribute of its own, with its type.
- A coroutine of `nbprov.aio` refers to the function or method that it is the twin of.
- A name in a signature, and of a class or its member between backticks, leads to the only object
  of the pages that is called so.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import nbprov
from nbprov.api import Cluster, Session
from nbprov.model.errors import NbprovError
from nbprov.model.secret import Secret

AIO = "nbprov.aio."
CONSTRUCTED = (Secret,)
"""The classes that a notebook constructs with positional arguments."""

VALUES = ("property", "attribute", "data")
"""Objects whose docstrings have no sections."""

CODE = re.compile(r"(\b(?:[Aa]s|[Aa]s for|[Ss]ee|that of|those of) )?(?<![`:])`([^`]+)`(?!`)")
NAME = re.compile(r"(nbprov|[A-Z]\w+)(\.\w+)*")

UNDERLINE = re.compile(r"-{3,}")


class _Plain:
    """A text that `repr` returns without quotes, as a signature is to show it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the arguments and the result of a function as its source writes them.

    Examples
    --------
    >>> signature(nbprov.rename)
    ('(name: str, new: str)', 'Cluster')
    """
    told = inspect.signature(function)
    parameters = [
        one.replace(annotation=_annotation(one.annotation), default=_default(one.default))
        for name, one in told.parameters.items()
        if name != "self"
    ]
    result = told.return_annotation
    made = told.replace(parameters=_marked(parameters), return_annotation=inspect.Signature.empty)
    return str(made), "" if result is inspect.Signature.empty else str(_annotation(result))


def _marked(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Show arguments that are positional for the sake of `self` alone as any other."""
    return [
        one.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if one.kind is inspect.Parameter.POSITIONAL_ONLY and one.name != "cluster"
        else one
        for one in parameters
    ]


def _annotation(told: Any) -> Any:
    return _Plain(told) if isinstance(told, str) else told


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty or not callable(value):
        return value
    return _Plain("..." if value.__name__ == "<lambda>" else value.__name__)


# ------------------------------------------------------------ docstrings


def sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of a numpy docstring: the heading (empty at first) and the lines."""
    heading, found = "", list[str]()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.strip() and not line.startswith(" ") and UNDERLINE.fullmatch(following):
            yield heading, found
            heading, found = line, []
        elif not (UNDERLINE.fullmatch(line) and not found and heading):
            found.append(line)
    yield heading, found


def entries(lines: list[str]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the entries of a section: the names that share a text, and the text."""
    names, text = tuple[str, ...](), list[str]()
    for line in [*lines, "end"]:
        if line and not line.startswith(" "):
            if names:
                yield names, text
            names, text = tuple(name.strip() for name in line.split(",")), []
        else:
            text.append(line)


def with_attributes(owner: type, lines: list[str]) -> list[str]:
    """Return the docstring of a class with a directive for each attribute and field."""
    told: dict[str, tuple[tuple[str, ...], list[str]]] = {}
    others = []
    for heading, found in sections(lines):
        if heading == "Attributes":
            for names, text in entries(found):
                told |= dict.fromkeys(names, (names, text))
        else:
            others.append((heading, found))
    types = {}
    if dataclasses.is_dataclass(owner):
        types = {one.name: str(one.type) for one in dataclasses.fields(owner)}
    elif issubclass(owner, tuple):
        types = {name: str(told) for name, told in inspect.get_annotations(owner).items()}
    made, shown = list[str](), set[str]()
    for name in [*types, *told]:
        names, text = told.get(name, ((name,), []))
        for one in names if name not in shown and not name.startswith("_") else ():
            shown.add(one)
            made += [f".. py:attribute:: {one}"]
            made += [f"   :type: {types[one]}"] if one in types else []
            made += ["", *(text if one == names[-1] else []), ""]
    first, *rest = others
    kept = [*first[1], "", *made]
    for heading, found in rest:
        if heading != "Parameters" or owner in CONSTRUCTED:
            kept += [heading, "-" * len(heading), *found]
    return kept


def of_coroutine(name: str, lines: list[str]) -> list[str]:
    """Return the text of a coroutine: what its twin does, and which twin that is."""
    summary = " ".join(lines[: lines.index("")] if "" in lines else lines)
    summary = re.sub(r"^Block until", "Wait until", summary).removesuffix(" Blocks.")
    if name in nbprov.__all__:
        return [summary, "", f"The twin of `nbprov.{name}`."]
    if hasattr(Cluster, name):
        return [summary, "", f"The twin of `Cluster.{name}`."]
    return [summary, "", f"The twin of `Session.{name}`."]


def with_roles(lines: list[str]) -> list[str]:
    """Return a docstring with a role for what stands between single backticks.

    Names of classes and their members may become links, and names of functions where the text
    refers to one.

    Examples
    --------
    >>> with_roles(["As for `push`: an `Offer` of `push`, `.gitignore`."])
    ['As for :py:obj:`push`: an :py:obj:`Offer` of ``push``, ``.gitignore``.']
    """

    def role(found: re.Match[str]) -> str:
        before, code = found[1] or "", found[2]
        if NAME.fullmatch(code) or (before and code.isidentifier()):
            return f"{before}:py:obj:`{code}`"
        return f"{before}``{code}``"

    return CODE.sub(role, "\n".join(lines)).split("\n")


_kept: dict[str, list[str]] = {}


def _docstring(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    if what in VALUES:
        _kept[name] = with_roles(lines)
        return
    if name.startswith(AIO):
        lines[:] = of_coroutine(name.removeprefix(AIO), lines)
    if isinstance(found, type):
        lines[:] = with_attributes(found, lines)
        if issubclass(found, NbprovError) and found is not NbprovError:
            base = found.__base__
            kind = f" A kind of `{base.__name__}`." if base is not NbprovError else ""
            lines += ["", f"Code: `{found.code}`.{kind}", ""]
    lines[:] = with_roles(lines)


def _without_napoleon(
    app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]
) -> None:
    # Napoleon would read the part before a colon as a type: "A short name: the kind, and …".
    if what in VALUES:
        lines[:] = _kept.pop(name)


def _signature(
    app: Any, what: str, name: str, found: Any, options: Any, told: str, result: str
) -> tuple[str, str] | None:
    if what in ("class", "exception"):
        return signature(found) if found in CONSTRUCTED else ("", "")
    return signature(found) if what in ("function", "method") else None


# ------------------------------------------------------------ names


def session_attribute(owner: type, name: str, *default: Any) -> Any:
    """Find an attribute of a class; for `Session` also those that each session has."""
    if owner is Session and not hasattr(Session, name):
        return getattr(nbprov.session(), name, *default)
    return getattr(owner, name, *default)


def _missing(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Find what a short name means: a class, an exception, `Class.member` or `nbprov.verb`."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not re.fullmatch(r"[A-Z]\w*(\.\w+)*", target):
        return None
    domain = env.domains["py"]
    found = {name for name in domain.objects if name.endswith(f".{target}")}
    if len(found) != 1:
        return None
    (full,) = found
    node["reftarget"] = full
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], full, node, content
    )


def setup(app: Any) -> dict[str, Any]:
    """Connect all this to Sphinx."""
    # Before and after napoleon, which reads the sections of what is left.
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    app.connect("autodoc-process-docstring", _without_napoleon, priority=600)
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _missing)
    app.add_autodoc_attrgetter(type, session_attribute)
    return {"parallel_read_safe": True}
