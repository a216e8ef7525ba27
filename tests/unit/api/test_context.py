"""The context of a session: its engine, the parts that belong to one, and its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbprov.api.context import Context, EngineBound
from nbprov.api.spec_inputs import SpecInputs
from nbprov.model.secret import Secret
from nbprov.provisioning.engine_hooks import EngineHooks


def plan_again(*_: Any) -> Any:
    raise AssertionError("nothing is planned here")


@pytest.fixture
def opened() -> list[object]:
    return []


@pytest.fixture
def context(tmp_path: Path, opened: list[object]) -> Iterator[Context]:
    context = Context(
        tmp_path,
        demo=False,
        runs={},
        hooks=lambda: EngineHooks(replan=plan_again),
        opened=opened.append,
    )
    yield context
    context.close()


def test_the_engine_is_opened_on_first_use_and_once(context: Context, opened: list[object]) -> None:
    assert (context.is_open, opened) == (False, [])
    engine = context.engine
    assert (context.engine is engine, opened, context.is_open) == (True, [engine], True)
    assert engine.hooks.replan is plan_again


def test_a_closed_session_opens_another_engine(context: Context, opened: list[object]) -> None:
    first = context.engine
    context.close()
    assert (context.is_open, context.is_open_on(first)) == (False, False)
    second = context.engine
    assert second is not first
    assert opened == [first, second]
    assert context.is_open_on(second)


def test_a_part_belongs_to_one_engine(context: Context) -> None:
    made: list[object] = []

    def make(engine: Any) -> object:
        made.append(engine)
        return object()

    part = EngineBound(context, make)
    assert (part.made(), context.is_open) == (None, False)
    first = part.get()
    assert (part.get() is first, part.made() is first, len(made)) == (True, True, 1)
    context.close()
    assert part.made() is None
    assert part.get() is not first
    assert made[-1] is context.engine


def test_secrets_of_runs_and_jobs_are_masked(context: Context) -> None:
    context.set_inputs("r1", SpecInputs({"MODE": "fast"}, {"TOKEN": Secret("hf_abcdef")}))
    context.add_secrets({"KEY": Secret("sk_123456"), "PLAIN": "open"})
    assert context.mask("hf_abcdef sk_123456 fast open") == "*** *** fast open"
    assert context.inputs["r1"].plain() == {"MODE": "fast"}
