"""Values that must never appear in an output, a log, the ledger or the notebook."""

from __future__ import annotations


class Secret:
    """A value that `repr`, `str` and pickling never reveal."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value. Use it only to write to a verified ssh connection."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")
