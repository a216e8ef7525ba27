"""Facts become the plain values that `dataclasses.asdict` makes of them, without its copies."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from nbprov.notebook.panels.plain_fields import plain_fields


@dataclass(frozen=True, slots=True)
class Inner:
    words: str
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    one: Inner | None
    all: tuple[Inner, ...]
    pairs: tuple[tuple[str, Inner], ...]


def test_it_is_what_asdict_makes() -> None:
    inner = Inner("a", (1, 2))
    for facts in (Outer(None, (), ()), Outer(inner, (inner, Inner("b")), (("x", inner),))):
        assert plain_fields(facts) == asdict(facts)
