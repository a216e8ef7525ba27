"""Why a variable cannot travel, and what to do instead. What a machine says of it is a machine's words: bounded, and looked up where it can be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.model.errors import NbprovError

LONGEST = 300
"""Characters of a machine's words in a line."""


class CannotTravel(NbprovError):
    """A variable cannot be copied to or from the machine.

    The code says why: `variable.missing`, `variable.too-large`, `variable.cannot-travel` (pickle cannot), `variable.not-plain` (with `--trust` it could come),
    `variable.unreadable` (what it is made of is not where it arrived), `variable.no-room`, `variable.interrupted`.
    """

    code = "variable.cannot-travel"


_FILE = "write it to a file and bring that with %nbprov sync, or make it where it is needed"

_NATURES: dict[str, tuple[str, str]] = {
    "file": (
        "an open file belongs to its machine",
        "send what is in it (text = file.read()), or sync the file itself: %nbprov sync",
    ),
    "generator": (
        "a generator or iterator is code that is half run",
        "send what it gives: list(…)",
    ),
    "lambda": (
        "a lambda has no name by which it could be found again",
        "define the function where it is needed, in a cell there or here",
    ),
    "function": (
        "a function goes by its name alone, and this one cannot be found by it",
        "define it where it is needed, or put it into a module",
    ),
    "class": (
        "a class goes by its name alone, and this one cannot be found by it",
        "define it where it is needed, or put it into a module",
    ),
    "module": (
        "a module is imported, not copied",
        "import it there; %pip install in a %%on cell, or setup, brings what is missing",
    ),
    "process": (
        "it belongs to the process that made it",
        "make it anew where it is needed, from what it was made of",
    ),
    "view": ("it is a view of another object", "send a copy: list(…), dict(…) or bytes(…)"),
    "deep": (
        "it holds itself, or others, too many levels deep",
        "send it flat: a table, or a list of its parts",
    ),
    "memory": ("there is not enough memory for a copy", _FILE),
    "own": (
        "its class is defined in a notebook or cell",
        "send what it is made of: arrays, numbers, text, containers of them",
    ),
    "cupy": ("it is in a GPU's memory", "x = cupy.asnumpy(x) first"),
    "jax": ("it is in a GPU's memory", "x = numpy.asarray(x) first"),
    "jaxlib": ("it is in a GPU's memory", "x = numpy.asarray(x) first"),
    "tensorflow": ("it is TensorFlow's", "x = x.numpy() first"),
    "polars": ("it is polars' own", "x = x.to_pandas() first"),
    "pyarrow": ("it is Arrow's own", "x = x.to_pandas() first"),
    "torch": (
        "it is an object of torch",
        "a tensor travels; of a model, send model.state_dict() with its tensors on the CPU, or sync a file of it",
    ),
}

_TRUST = (
    "; -o NAME --trust takes any object, if you trust all that runs on that machine as your own"
)


def _words(text: object) -> str:
    return re.sub(r"\s+", " ", str(text))[:LONGEST]


def _said(told: Mapping[str, Any], field: str) -> str:
    return _words(told.get(field, "")) if isinstance(told.get(field), str) else ""


def not_sent(told: Mapping[str, Any], here: str, most: int) -> CannotTravel:
    """The error for a variable that could not be packed where it is.

    Parameters
    ----------
    here
        Where it is: the name of a cluster, or "here" for this kernel.
    """
    name, no = _said(told, "name") or "a variable", told.get("no")
    if no == "missing":
        flag = "-i" if here == "here" else "-o"
        where = "here" if here == "here" else "on the machine"
        hint = f"assign it {'before the cell' if flag == '-i' else 'in the cell'}, or leave it out of {flag}"
        return CannotTravel(
            f"there is no variable {name} {where}", hint=hint, code="variable.missing"
        )
    if no == "too-much":
        size = told.get("size")
        known = (
            f"{size / 1e6:,.0f} MB or more"
            if isinstance(size, int) and 0 <= size < 2**63
            else "too much"
        )
        words = f"{name} ({_said(told, 'kind')}) makes it {known}, and at most {most / 1e6:,.0f} MB travel with a cell"
        return CannotTravel(words, hint=_FILE, code="variable.too-large")
    if no == "unwritten":
        return CannotTravel(
            f"{name} could not be written {_at(here)}: {_said(told, 'why')}",
            hint="make room on its disk",
            code="variable.no-room",
        )
    if no == "interrupted":
        return CannotTravel(
            f"the copy was interrupted {_at(here)}",
            hint="run the cell again",
            code="variable.interrupted",
        )
    if no != "cannot":
        return CannotTravel("the machine's answer cannot be read", hint="run the cell again")
    return _cannot(name, told, is_plain=bool(told.get("plain")))


def _cannot(name: str, told: Mapping[str, Any], *, is_plain: bool) -> CannotTravel:
    nature, kind, held = _said(told, "nature"), _said(told, "kind"), _said(told, "held")
    why, hint = _NATURES.get(nature, ("", ""))
    holds = (
        f"it holds a {held.removeprefix('builtins.')}, and "
        if held and held.rpartition(".")[2] != kind
        else ""
    )
    if not why:
        why = _said(told, "why")
        if is_plain:
            holds, why = "", why + ", which is no plain data"
        hint = (
            "send what it is made of: arrays, tables, numbers, texts, containers of them; or "
            + _FILE
        )
    # What no pickle can do, trust cannot either.
    could_come = is_plain and nature not in ("file", "generator", "lambda", "module", "process")
    return CannotTravel(
        f"{name} ({kind}) cannot travel: {holds}{why}",
        hint=hint + (_TRUST if could_come else ""),
        code="variable.not-plain" if could_come else "variable.cannot-travel",
    )


def not_carried(error: NbprovError, name: str, now: str) -> NbprovError:
    """The error for a copy that the machine's agent refused, or that its line did not carry.

    Parameters
    ----------
    now
        How things stand: whether the cell ran, and where the variables are.
    """
    if error.code in ("agent.no-room", "agent.boxes-full"):
        return CannotTravel(
            f"{error.message}; {now}",
            hint=f"make room on the disk of {name}: %%on {name} --bash, df -h ~",
            code="variable.no-room",
        )
    if error.code == "agent.no-box":
        return CannotTravel(error.message, hint=now, code="variable.torn")
    if error.code in ("agent.lost", "agent.timeout"):
        return CannotTravel(
            error.message, hint=f"{now}; %clusters shows whether {name} still runs", code=error.code
        )
    return error


def _at(place: str) -> str:
    return "here" if place == "here" else f"on {place}"


def not_understood(told: Mapping[str, Any], names: Sequence[str], where: str) -> CannotTravel:
    """The error for variables that were sent and could not be read on the machine."""
    if told.get("no") in ("interrupted", "unwritten"):
        return not_sent(told, where, 0)
    if told.get("no") != "unread" or told.get("name") not in names:
        return CannotTravel(
            f"what was sent to {where} did not arrive whole",
            hint="run the cell again",
            code="variable.torn",
        )
    return _unread(str(told["name"]), _said(told, "why"), where, "here")


def unread_here(name: str, error: BaseException, where: str) -> CannotTravel:
    """The error for a variable that came from a machine that is trusted, and could not be read here."""
    return _unread(name, _words(f"{type(error).__name__}: {error}"), "here", where)


def _unread(name: str, why: str, place: str, origin: str) -> CannotTravel:
    at, made = _at(place), _at(origin)
    cell = f"a %%on {place} cell" if place != "here" else "a cell here"
    missing = re.search(r"Can't get attribute '([\w.<>]+)' on <module '__main__'", why)
    module = re.search(r"No module named '([\w.]+)'", why)
    words, hint = (
        f"{name} cannot be read {at}: {why}",
        "what it is made of must be defined or installed there as it is where it comes from",
    )
    if missing:
        words = f"{name} cannot be read {at}: its class or function {missing[1]} is defined in a cell {made} alone"
        hint = f"define {missing[1]} in {cell} as well, or in a module that both have (workdir)"
    elif module and module[1].startswith("numpy._core"):
        words = f"{name} cannot be read {at}: numpy is older there than 2, and 2 or later where it was made"
        hint = f"install the same numpy {at}: %pip install -U numpy in {cell}"
    elif module:
        words = f"{name} cannot be read {at}: it needs the module {module[1]}, which is not installed {at}"
        hint = f"%pip install it in {cell}, or " + (
            "name it in python: or setup:"
            if place != "here"
            else "fetch it as plain data: x.cpu().numpy(), list(x)"
        )
    elif "CUDA" in why or "cuda" in why:
        words = f"{name} cannot be read {at}: it is in a GPU's memory, and there is none that could take it {at}"
        hint = f"bring it to the CPU before: {name} = {name}.cpu()"
    return CannotTravel(words, hint=hint, code="variable.unreadable")


def not_plain(name: str, error: BaseException) -> CannotTravel:
    """The error for a variable that came and is no plain data after all, or needs more than is here."""
    return CannotTravel(
        f"{name} came back and is not taken: {_words(error)}",
        hint="only plain data is; if you trust all that runs on that machine as your own: -o NAME --trust",
        code="variable.not-plain",
    )
