"""Errors that say why a variable cannot be copied, and what to do instead.

A machine's own words are not trusted: they are shortened, and replaced by ours where possible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.model.errors import NbprovError

LONGEST = 300
"""The most characters of a machine's words in an error."""


class VariableCopyError(NbprovError):
    """A variable cannot be copied to or from the machine.

    The code says why: `variable.missing`, `variable.too-large`, `variable.no-room`,
    `variable.interrupted`, `variable.cannot-travel` (pickle cannot copy it), `variable.not-plain`
    (only `--trust` could copy it) or `variable.unreadable` (a class or module it needs is missing
    where it arrived).
    """

    code = "variable.cannot-travel"


_FILE = "write it to a file and copy that with %nbprov sync, or create it where it is needed"

_NATURES: dict[str, tuple[str, str]] = {
    "file": (
        "an open file belongs to its machine",
        "send its content (text = file.read()), or copy the file with %nbprov sync",
    ),
    "generator": (
        "a generator or iterator is code in the middle of running",
        "send its values: list(…)",
    ),
    "lambda": (
        "a lambda has no name under which the other side could import it",
        "define the function in a cell on the side that needs it",
    ),
    "function": (
        "a function is copied by name, and this one cannot be found under its name",
        "define it on the side that needs it, or put it into a module",
    ),
    "class": (
        "a class is copied by name, and this one cannot be found under its name",
        "define it on the side that needs it, or put it into a module",
    ),
    "module": (
        "a module is imported, not copied",
        "import it there; if it is missing, run %pip install in a %%on cell or add it to setup",
    ),
    "process": (
        "it belongs to the process that created it",
        "create it again on the side that needs it",
    ),
    "view": ("it is a view of another object", "send a copy: list(…), dict(…) or bytes(…)"),
    "deep": (
        "it is nested too deeply",
        "send it in a flat form: a table, or a list of its parts",
    ),
    "memory": ("there is not enough memory for a copy", _FILE),
    "own": (
        "its class is defined in a notebook or cell",
        "send its data: arrays, numbers, text, or containers of them",
    ),
    "cupy": ("it is in a GPU's memory", "convert it first: x = cupy.asnumpy(x)"),
    "jax": ("it is in a GPU's memory", "convert it first: x = numpy.asarray(x)"),
    "jaxlib": ("it is in a GPU's memory", "convert it first: x = numpy.asarray(x)"),
    "tensorflow": ("it is a TensorFlow object", "convert it first: x = x.numpy()"),
    "polars": ("it is a polars object", "convert it first: x = x.to_pandas()"),
    "pyarrow": ("it is an Arrow object", "convert it first: x = x.to_pandas()"),
    "torch": (
        "it is a torch object",
        "a tensor can be copied; for a model, send model.state_dict() with its tensors on the CPU,"
        " or save it to a file and sync that",
    ),
}

_TRUST = "; -o NAME --trust accepts any object, if you trust everything that runs on that machine"


def _words(text: object) -> str:
    return re.sub(r"\s+", " ", str(text))[:LONGEST]


def _field(answer: Mapping[str, Any], field: str) -> str:
    return _words(answer.get(field, "")) if isinstance(answer.get(field), str) else ""


def pack_error(answer: Mapping[str, Any], here: str, most: int) -> VariableCopyError:
    """Return the error for a variable that could not be packed where it is.

    Parameters
    ----------
    here
        Where it is: the name of a cluster, or "here" for this kernel.
    """
    name, no = _field(answer, "name") or "a variable", answer.get("no")
    if no == "missing":
        flag = "-i" if here == "here" else "-o"
        where = "here" if here == "here" else "on the machine"
        when = "before the cell" if flag == "-i" else "in the cell"
        hint = f"assign it {when}, or leave it out of {flag}"
        return VariableCopyError(
            f"there is no variable {name} {where}", hint=hint, code="variable.missing"
        )
    if no == "too-much":
        size = answer.get("size")
        known = (
            f"{size / 1e6:,.0f} MB or more"
            if isinstance(size, int) and 0 <= size < 2**63
            else "too much space"
        )
        words = (
            f"with {name} ({_field(answer, 'kind')}) the variables take {known}, and a cell can"
            f" copy at most {most / 1e6:,.0f} MB"
        )
        return VariableCopyError(words, hint=_FILE, code="variable.too-large")
    if no == "unwritten":
        return VariableCopyError(
            f"{name} could not be written {_at(here)}: {_field(answer, 'why')}",
            hint="free space on its disk",
            code="variable.no-room",
        )
    if no == "interrupted":
        return VariableCopyError(
            f"the copy was interrupted {_at(here)}",
            hint="run the cell again",
            code="variable.interrupted",
        )
    if no != "cannot":
        return VariableCopyError("the machine's answer is not valid", hint="run the cell again")
    return _cannot(name, answer, is_plain=bool(answer.get("plain")))


def _cannot(name: str, answer: Mapping[str, Any], *, is_plain: bool) -> VariableCopyError:
    nature, kind, held = _field(answer, "nature"), _field(answer, "kind"), _field(answer, "held")
    why, hint = _NATURES.get(nature, ("", ""))
    holds = (
        f"it holds a {held.removeprefix('builtins.')}, and "
        if held and held.rpartition(".")[2] != kind
        else ""
    )
    if not why:
        why = _field(answer, "why")
        if is_plain:
            holds, why = "", why + ", which is not plain data"
        hint = "send its data: arrays, tables, numbers, text, or containers of them; or " + _FILE
    # These cannot be pickled at all, so --trust does not help.
    could_come = is_plain and nature not in ("file", "generator", "lambda", "module", "process")
    return VariableCopyError(
        f"{name} ({kind}) cannot be copied: {holds}{why}",
        hint=hint + (_TRUST if could_come else ""),
        code="variable.not-plain" if could_come else "variable.cannot-travel",
    )


def transfer_error(error: NbprovError, name: str, now: str) -> NbprovError:
    """Return the error for a copy that the agent refused or that the connection lost.

    Parameters
    ----------
    now
        The state: whether the cell ran, and where the variables are.
    """
    if error.code in ("agent.no-room", "agent.boxes-full"):
        return VariableCopyError(
            f"{error.message}; {now}",
            hint=f"free space on the disk of {name}: %%on {name} --bash, df -h ~",
            code="variable.no-room",
        )
    if error.code == "agent.no-box":
        return VariableCopyError(error.message, hint=now, code="variable.torn")
    if error.code in ("agent.lost", "agent.timeout"):
        return VariableCopyError(
            error.message,
            hint=f"{now}; %clusters shows whether {name} is still running",
            code=error.code,
        )
    return error


def _at(place: str) -> str:
    return "here" if place == "here" else f"on {place}"


def remote_read_error(
    answer: Mapping[str, Any], names: Sequence[str], where: str
) -> VariableCopyError:
    """Return the error for variables that were sent and could not be read on the machine."""
    if answer.get("no") in ("interrupted", "unwritten"):
        return pack_error(answer, where, 0)
    if answer.get("no") != "unread" or answer.get("name") not in names:
        return VariableCopyError(
            f"the variables sent to {where} arrived incomplete",
            hint="run the cell again",
            code="variable.torn",
        )
    return _unread(str(answer["name"]), _field(answer, "why"), where, "here")


def local_read_error(name: str, error: BaseException, where: str) -> VariableCopyError:
    """Return the error for a variable from a trusted machine that could not be read here."""
    return _unread(name, _words(f"{type(error).__name__}: {error}"), "here", where)


def _unread(name: str, why: str, place: str, origin: str) -> VariableCopyError:
    at, made = _at(place), _at(origin)
    cell = f"a %%on {place} cell" if place != "here" else "a cell here"
    missing = re.search(r"Can't get attribute '([\w.<>]+)' on <module '__main__'", why)
    module = re.search(r"No module named '([\w.]+)'", why)
    words, hint = (
        f"{name} cannot be read {at}: {why}",
        "the classes and modules it needs must be the same on both sides",
    )
    if missing:
        words = (
            f"{name} cannot be read {at}: its class or function {missing[1]} is only defined in a"
            f" cell {made}"
        )
        hint = f"define {missing[1]} in {cell} too, or in a module that both sides have (workdir)"
    elif module and module[1].startswith("numpy._core"):
        words = (
            f"{name} cannot be read {at}: numpy there is older than 2, and the variable was made"
            " with 2 or later"
        )
        hint = f"install the same numpy {at}: %pip install -U numpy in {cell}"
    elif module:
        words = (
            f"{name} cannot be read {at}: it needs the module {module[1]}, which is not installed"
            f" {at}"
        )
        hint = f"%pip install it in {cell}, or " + (
            "name it in python: or setup:"
            if place != "here"
            else "fetch it as plain data: x.cpu().numpy() or list(x)"
        )
    elif "CUDA" in why or "cuda" in why:
        words = (
            f"{name} cannot be read {at}: it is in a GPU's memory, and there is no such GPU {at}"
        )
        hint = f"move it to the CPU first: {name} = {name}.cpu()"
    return VariableCopyError(words, hint=hint, code="variable.unreadable")


def plain_data_error(name: str, error: BaseException) -> VariableCopyError:
    """Return the error for a variable that arrived and is not plain data after all."""
    return VariableCopyError(
        f"{name} arrived, but is not accepted: {_words(error)}",
        hint="only plain data is accepted; if you trust everything that runs on that machine, use"
        " -o NAME --trust",
        code="variable.not-plain",
    )
