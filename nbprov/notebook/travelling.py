"""`%%on -i a,b -o c`: variables that go to the machine before the cell, and come back after it."""

from __future__ import annotations

import base64
import binascii
import pickle
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from nbprov.api import session
from nbprov.model.errors import NbprovError, UsageError

from .shown import Line, say

PROTOCOL = 4
"""Every Python from 3.4 on reads it: the machine's may be older or newer than this kernel's."""

MOST_BYTES = 100_000_000
"""All variables of one direction together, pickled."""

SHOWN_FROM = 5_000_000
"""From so many bytes on it is said that they travel."""
SAID_BY_US = "nbprov: "
"""How lines begin that the agent puts into a cell's output."""

PIECE = 4_000_000
"""Bytes a message: small enough for any limit on the way, and each is a step of the progress."""


class CannotTravel(NbprovError):
    """A variable cannot be copied to or from the machine."""

    code = "variable.cannot-travel"


Cell = Callable[[str], str]
"""Runs Python on the machine; what it wrote to stdout."""


def names_of(items: Sequence[str], flag: str) -> list[str]:
    """The names in `-i a,b -i c`, each once.

    Raises
    ------
    UsageError
        If one is no variable's name.
    """
    found = [name.strip() for item in items for name in item.split(",") if name.strip()]
    for name in found:
        if not name.isidentifier():
            raise UsageError(f"%%on {flag} wants names of variables, not {name!r}", hint="%%on dev -i a,b -o c")
    return list(dict.fromkeys(found))


def packed(namespace: Mapping[str, Any], names: Sequence[str]) -> bytes:
    """Variables as one pickle.

    Raises
    ------
    CannotTravel
        Naming the variable that is missing, cannot be pickled or makes it too much, and why.
    """
    parts: dict[str, bytes] = {}
    for name in names:
        if name not in namespace:
            raise CannotTravel(f"there is no variable {name} here", hint="assign it before the cell, or leave it out of -i")
        try:
            parts[name] = pickle.dumps(namespace[name], protocol=PROTOCOL)
        except Exception as error:
            kind = type(namespace[name]).__name__
            raise CannotTravel(
                f"{name} ({kind}) cannot travel: {_one_line(error)}",
                hint="send what it is made of: arrays, numbers, text, containers of them",
            ) from None
        _refuse_size(name, sum(map(len, parts.values())))
    return pickle.dumps(parts, protocol=PROTOCOL)


def _refuse_size(name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise CannotTravel(
            f"{name} makes it {size / 1e6:,.0f} MB, and at most {MOST_BYTES / 1e6:,.0f} MB travel with a cell",
            hint="write it to a file and use file_mounts, or make it on the machine",
        )


def _one_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:300]


class Progress:
    """One line that counts megabytes; nothing below `SHOWN_FROM`."""

    def __init__(self, doing: str, total: int) -> None:
        self._doing, self._total = doing, total
        self._line = Line(self._text(0)) if total > SHOWN_FROM else None

    def _text(self, sent: int) -> str:
        return f"{self._doing}: {sent / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"

    def at(self, sent: int) -> None:
        """Renew the line."""
        if self._line is not None:
            self._line.renew(self._text(sent))


def send(cell: Cell, namespace: Mapping[str, Any], names: Sequence[str]) -> None:
    """Copy variables to the machine.

    Raises
    ------
    CannotTravel
        If one of them cannot be pickled here or unpickled there.
    """
    data = packed(namespace, names)
    box = f"_nbprov_{uuid.uuid4().hex}"
    progress = Progress(f"sending {', '.join(names)}", len(data))
    cell(f"{box} = []")
    for start in range(0, len(data), PIECE):
        piece = base64.b64encode(data[start : start + PIECE]).decode("ascii")
        cell(f"{box}.append('{piece}')")
        progress.at(min(len(data), start + PIECE))
    _answer(cell(_UNPACK.format(box=box)), "what it is made of must be defined or installed there too: in a %%on cell, or by setup")


def fetch(cell: Cell, namespace: dict[str, Any], names: Sequence[str], *, is_trusted: bool = False) -> None:
    """Copy variables from the machine. All of them arrive, or none.

    Parameters
    ----------
    is_trusted
        Take any object: what the machine sends then runs here with this user's rights. Otherwise only plain data is taken.

    Raises
    ------
    CannotTravel
        If one of them is missing there, is no plain data, cannot be read here, or is too much.
    """
    box = f"_nbprov_{uuid.uuid4().hex}"
    source = files("nbprov.machines").joinpath("packing_there.py").read_text(encoding="utf-8")
    program = source[source.index("def _nbprov_give") :]  # what is above it would stay in the user's namespace
    told = _answer(
        cell(_PACK.format(program=program, box=box, names=list(names), most=MOST_BYTES, is_trusted=is_trusted)),
        "fetch the numbers, texts, arrays and tables it is made of, or write it to a file there; --trust takes any object, if you trust that machine",
    )
    data = _pieces(cell, box, told, names)
    found = _unpacked(data, is_trusted)
    if sorted(found) != sorted(names):
        raise CannotTravel("what came back from the machine are not the variables asked for", hint="run the cell again")
    namespace.update(found)


def _pieces(cell: Cell, box: str, told: str, names: Sequence[str]) -> bytes:
    """All bytes of a box on the machine; what it says of their number is believed up to the limit, and then held to it."""
    most = MOST_BYTES + 1_000 * (len(names) + 1)
    if not told.isdecimal() or len(told) > 12 or int(told) > most:
        raise CannotTravel(f"the machine's answer cannot be read: {told[:100]!r}", hint="run the cell again")
    total, data = int(told), bytearray()
    progress = Progress(f"fetching {', '.join(names)}", total)
    while len(data) < total:
        text = cell(f"print(__import__('base64').b64encode({box}[{len(data)}:{len(data) + PIECE}]).decode('ascii'))")
        try:
            piece = base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            piece = b""
        if len(piece) != min(PIECE, total - len(data)):
            raise CannotTravel("what came back from the machine was cut off, or is more than it said", hint="run the cell again")
        data += piece
        progress.at(len(data))
    cell(f"del {box}")
    return bytes(data)


def _unpacked(data: bytes, is_trusted: bool) -> dict[str, Any]:
    """The variables, each built from plain data; a machine that is trusted may say what is run instead."""
    from nbprov.machines.plain_values import NotPlain, plain_value

    try:
        parts = plain_value(data)
    except NotPlain as error:
        raise CannotTravel(f"what came back cannot be read: {error}", hint="run the cell again") from None
    if not isinstance(parts, dict) or not all(isinstance(name, str) and isinstance(part, bytes) for name, part in parts.items()):
        raise CannotTravel("what came back cannot be read: it is broken", hint="run the cell again")
    found: dict[str, Any] = {}
    for name, part in parts.items():
        try:
            found[name] = pickle.loads(part) if is_trusted else plain_value(part)
        except NotPlain as error:
            raise CannotTravel(
                f"{name} came back and is not taken: {error}",
                hint="only plain data is; if you trust all that runs on that machine as your own: -o NAME --trust",
            ) from None
        except Exception as error:
            raise CannotTravel(
                f"{name} came back and cannot be read here: {_one_line(error)}",
                hint="its class must be here too: install the module, or run the cell that defines it here",
            ) from None
    return found


def _answer(text: str, hint: str) -> str:
    """What a piece of ours wrote last; its complaint as an error."""
    last = (text.strip().splitlines() or [""])[-1]
    kind, _, rest = last.partition(" ")
    if kind == "nbprov-no" and rest.startswith("there is no variable"):
        hint = "assign it in the cell, or leave it out of -o"
    if kind != "nbprov-ok":
        raise CannotTravel(rest if kind == "nbprov-no" else f"the machine's answer cannot be read: {last[:200]!r}", hint=hint)
    return rest


_UNPACK = """
def _nbprov_take(pieces, space):
    import base64, pickle
    data = b"".join(map(base64.b64decode, pieces))
    for name, part in pickle.loads(data).items():
        try:
            space[name] = pickle.loads(part)
        except Exception as error:
            return "nbprov-no %s cannot be read on the machine: %s" % (name, " ".join(("%s: %s" % (type(error).__name__, error)).split()))
    return "nbprov-ok"
print(_nbprov_take({box}, globals()))
del _nbprov_take, {box}
"""

_PACK = """
{program}
{box}, _nbprov_said = _nbprov_give(globals(), {names!r}, {most}, {is_trusted})
print(_nbprov_said)
del _nbprov_give, _nbprov_said
"""


def cell_of(name: str) -> Cell:
    """Runs a piece of ours on the head of a cluster."""
    from nbprov.machines.cells import own_cell

    here = session()

    def run(code: str) -> str:
        heard: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["text"].startswith(SAID_BY_US):
                heard.append(message["content"]["text"].rstrip("\n"))

        text = here.wait_remote(name, lambda live: own_cell(live, code, on_output=hear), say=say).text
        for line in heard:  # what the machine has to say of its kernel is for the person, whoever's cell it met
            say(line)
        return text

    return run
