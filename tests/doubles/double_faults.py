"""Scripted faults of a double's calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Aliases = Mapping[str, tuple[str, ...]]


@dataclass
class Fault:
    """A fault of the next `times` such calls; -1 stands for all of them.

    Attributes
    ----------
    call
        The call it strikes, as the double names it; `*` strikes any.
    do
        What happens.
    where
        Fields of the request that must have these values.
    seconds, message, code, status
        What the answer says, where the double's own words are not meant.
    dry
        Whether it strikes a request that only asks whether it would succeed.
    """

    call: str
    do: str
    where: dict[str, Any] = field(default_factory=dict)
    times: int = 1
    seconds: float = 0.0
    message: str = ""
    code: str = ""
    status: int = 400
    dry: bool = False


class Faults:
    """The scripted faults of one double; used under its lock.

    Parameters
    ----------
    usual
        The call that is struck if a test names none.
    aliases
        The calls that a name of the tests stands for.
    """

    def __init__(self, usual: str = "", aliases: Aliases | None = None) -> None:
        self._usual, self._aliases = usual, dict(aliases or {})
        self._scripted: list[Fault] = []

    def add(self, told: Mapping[str, Any]) -> None:
        """Script a fault with these fields; with `clear` forget all."""
        if told.get("clear"):
            self._scripted.clear()
        else:
            self._scripted.append(Fault(**{"call": self._usual, **told}))

    def take(self, call: str, value: Callable[[str], Any], *, dry: bool = False) -> Fault | None:
        """Return the fault that strikes this call, and count it.

        `value` gives the fields of the request.
        """
        for one in self._scripted:
            if (
                one.times
                and one.dry == dry
                and (one.call == "*" or call in self._aliases.get(one.call, (one.call,)))
                and all(value(name) == wanted for name, wanted in one.where.items())
            ):
                one.times -= one.times > 0
                return one
        return None
