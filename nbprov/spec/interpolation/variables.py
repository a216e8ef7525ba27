"""Notebook variables: `$name` and `${name.attribute[0]}`, and their values as parts of a cell.

Values are filled in after the text has been parsed, so that they never add structure by accident. A
list or dict that stands alone adds structure on purpose.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from collections.abc import Mapping as Map
from difflib import get_close_matches

from nbprov.model.secret import Secret
from nbprov.spec.yaml.diagnostics import InvalidValue
from nbprov.spec.yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    ScalarKind,
    Sequence,
    kind_of,
    quoted,
)
from nbprov.spec.yaml.reader import MAX_BYTES, MAX_DEPTH, MAX_NODES

REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z]\w*)|\{(?P<braced>[^{}]{0,200})\})")
"""`$$`, `$name`, `${...}`. A digit or `_` after `$` is no name: OCI has types called `Flex$_2_16`,
and prices are `$5`.
"""

_STEP = re.compile(
    r"\.(?P<attribute>[A-Za-z_]\w*)"
    r"""|\[(?:(?P<index>-?[0-9]{1,9})|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\]"""
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_ESCAPED = re.compile(r"\$(?=[$A-Za-z{])")
_MOST_BITS = 256
_MOST_STEPS = 20


def escaped(text: str) -> str:
    """Text as it is written in a field where `$` names a notebook variable.

    Examples
    --------
    >>> escaped("$HOME/x"), escaped("Flex$_2_16")
    ('$$HOME/x', 'Flex$_2_16')
    """
    return _ESCAPED.sub("$$", text)


def look_up(expression: str, variables: Map[str, object]) -> object:
    """The value of `x`, `x.y` or `x.y[0]["key"]`; nothing is called.

    Raises
    ------
    InvalidValue
        If it is no such expression, the name is unknown, or a step fails.
    """
    text = expression.strip()
    head = _NAME.match(text)
    if head is None or len(text) > 200:
        raise InvalidValue(
            f"{quoted('${' + text + '}')} is not a name",
            "write ${x}, ${x.y} or ${x[0]}; $$ is a dollar sign",
            "variable",
        )
    name, at = head.group(), head.end()
    if name not in variables:
        near = _nearest(name, variables)
        meant = f"did you mean `${near}`?" if near else f"define {name} in a cell above;"
        hint = f"{meant} `$${name}` is the text itself"
        raise UnknownVariable(f"there is no notebook variable {quoted(name)}", hint, near)
    value = variables[name]
    for _ in range(_MOST_STEPS):
        if at == len(text):
            return value
        step = _STEP.match(text, at)
        if step is None or (step["attribute"] or "").startswith("__"):
            raise InvalidValue(
                f"{quoted(text)}: {quoted(text[at:])} is neither an attribute nor an index",
                "write ${x.y} or ${x[0]}; nothing is called",
                "variable",
            )
        value = _step(value, step, text)
        at = step.end()
    raise InvalidValue(
        f"{quoted(text)} has more than {_MOST_STEPS} steps",
        "put the value into a variable of its own",
        "variable",
    )


def _nearest(name: str, variables: Map[str, object]) -> str:
    """The variable whose name is most like this one, case ignored; empty if there is none."""
    known = {
        variable.casefold(): variable for variable in variables if not variable.startswith("_")
    }
    near = get_close_matches(name.casefold(), known, 1, 0.6)
    return known[near[0]] if near else ""


class UnknownVariable(InvalidValue):
    """No notebook variable has this name."""

    def __init__(self, message: str, hint: str, closest: str) -> None:
        super().__init__(message, hint, "variable")
        self.closest = closest


def _step(value: object, step: re.Match[str], text: str) -> object:
    attribute, index = step["attribute"], step["index"]
    try:
        if attribute:
            return getattr(value, attribute)
        key = (
            int(index)
            if index is not None
            else step["double"]
            if step["double"] is not None
            else step["single"]
        )
        return value[key]  # type: ignore[index]
    except Exception as error:  # the variable's own code may raise anything; only its type is shown
        hint = (
            f'write ${{x["{attribute}"]}} for an entry of a dict'
            if attribute and isinstance(value, dict)
            else "look at it in a cell"
        )
        raise InvalidValue(
            f"{quoted(text)}: {quoted(step.group())} of a {type(value).__name__} fails: "
            f"{type(error).__name__}",
            hint,
            "variable",
        ) from None


class Converter:
    """Turns values into nodes at one place of the text, within the limits of written text."""

    def __init__(self) -> None:
        self._nodes = 0
        self._letters = 0

    def node(
        self,
        value: object,
        name: str,
        start: Mark,
        end: Mark,
        adapt: Callable[[str], str],
        depth: int = 0,
    ) -> Node:
        """The node of a value.

        Parameters
        ----------
        adapt
            Applied to each text in the value, for fields in which `$` is read again later.

        Raises
        ------
        InvalidValue
            If the value, or one inside it, is of another type or too large.
        """
        if depth > MAX_DEPTH:
            raise InvalidValue(
                f"{quoted(name)} is nested more than {MAX_DEPTH} levels deep",
                "a spec needs only a few",
                "variable",
            )
        value = plain(value, name)
        self._spend(1, 0, name)
        if isinstance(value, dict):
            pairs: dict[str, tuple[Scalar, Node]] = {}
            for key, inner in value.items():
                left = self.node(_key(key, name), name, start, end, adapt, depth + 1)
                assert isinstance(left, Scalar)
                if left.text in pairs:
                    raise InvalidValue(
                        f"{quoted(name)} has the key {quoted(left.text)} twice",
                        "keep one of them",
                        "variable",
                    )
                pairs[left.text] = (left, self.node(inner, name, start, end, adapt, depth + 1))
            return Mapping(
                tuple(pairs.values()),
                start,
                end,
                1 + sum(k.size + v.size for k, v in pairs.values()),
            )
        if isinstance(value, list):
            items = tuple(self.node(inner, name, start, end, adapt, depth + 1) for inner in value)
            return Sequence(items, start, end, 1 + sum(item.size for item in items))
        if isinstance(value, str):
            self._spend(0, len(value), name)
            return Scalar(adapt(value), ScalarKind.TEXT, False, start, end)
        text = as_text(value)
        return Scalar(text, kind_of(text), True, start, end)

    def _spend(self, nodes: int, letters: int, name: str) -> None:
        self._nodes += nodes
        self._letters += letters
        if self._nodes > MAX_NODES or self._letters > MAX_BYTES:
            raise InvalidValue(
                f"{quoted(name)} is larger than a cell may be", "put data into a file", "variable"
            )


Plain = None | bool | int | float | str | list[object] | dict[object, object]


def plain(value: object, name: str) -> Plain:
    """The value as one of Python's own types; scalars of numpy and pandas become plain ones.

    Raises
    ------
    InvalidValue
        If it is of any other type.
    """
    if (
        type(value).__module__.partition(".")[0] == "numpy"
        and getattr(value, "ndim", None) == 0
        and hasattr(value, "item")
    ):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise InvalidValue(
                f"{quoted(name)} is a number of more than {_MOST_BITS} bits",
                "no field takes such a number",
                "variable",
            )
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, dict):
        return dict(value)
    hint = (
        "put its .tolist() into a variable"
        if hasattr(value, "tolist")
        else "take text, a number, a list or a dict"
    )
    raise InvalidValue(
        f"{quoted(name)} is a {type(value).__name__}, which has no place in a spec",
        hint,
        "variable",
    )


def _key(key: object, name: str) -> object:
    key = plain(key, name)
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise InvalidValue(
            f"{quoted(name)} has a key that is a {type(key).__name__}",
            "use text as keys",
            "variable",
        )
    return key


def as_text(value: bool | int | float | None) -> str:
    """A value that is not text, as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return repr(value)


def embedded(value: object, name: str) -> str:
    """A value as part of other text; only text and numbers are possible."""
    value = plain(value, name)
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (bool, list, dict)):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise InvalidValue(
            f"{quoted(name)} is {kind}; inside other text only text and numbers are taken",
            "let it stand alone",
            "variable",
        )
    return as_text(value)


def revealed(value: object) -> object:
    """The value of a `Secret`; any other value unchanged."""
    return value.reveal() if isinstance(value, Secret) else value
