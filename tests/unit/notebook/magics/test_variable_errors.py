"""Each error of `-i` and `-o` names the variable, the reason and the next step."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from nbprov.model.errors import NbprovError
from nbprov.notebook.magics import on_variables
from nbprov.notebook.magics.on_variables import pack_variables
from nbprov.notebook.magics.variable_errors import (
    VariableCopyError,
    local_read_error,
    pack_error,
    remote_read_error,
    transfer_error,
)
from nbprov.on_machine.pack_values import pack
from nbprov.remote.agent.framing import AgentError

MOST = 1_000_000


class Mine:
    """An object that is not plain data."""


def refused(value: Any, *, is_plain: bool) -> VariableCopyError:
    told = pack({"x": value}, ["x"], MOST, is_plain, io.BytesIO())
    return pack_error(told, "dev" if is_plain else "here", MOST)


CASES: list[tuple[Callable[[], Any], bool, str, str]] = [
    (
        lambda: threading.Lock(),
        False,
        "x (lock) cannot be copied: it belongs to the process that created it",
        "create it again",
    ),
    (
        lambda: {"a": threading.Lock()},
        False,
        "x (dict) cannot be copied: it holds a _thread.lock, and it belongs to",
        "create it again",
    ),
    (
        lambda: (n for n in ()),
        True,
        "x (generator) cannot be copied: a generator or iterator is code in the middle of running",
        "list(…)",
    ),
    (
        lambda: lambda: 1,
        False,
        "x (function) cannot be copied: a lambda has no name",
        "define the function",
    ),
    (
        lambda: [io],
        True,
        "x (list) cannot be copied: it holds a module, and a module is imported",
        "%pip install",
    ),
    (
        lambda: io.BytesIO(),
        True,
        "x (BytesIO) cannot be copied: an open file belongs to its machine",
        "%nbprov sync",
    ),
    (
        lambda: Mine(),
        True,
        "x (Mine) cannot be copied: it holds a ",
        "--trust",
    ),
    (
        lambda: pd.interval_range(0, 3).to_series(),
        True,
        "x (Series) cannot be copied: a column of pandas type interval",
        "--trust",
    ),
    (
        lambda: bytes(2_000_000),
        True,
        "with x (bytes) the variables take 2 MB or more, and a cell can copy at most 1 MB",
        "%nbprov sync",
    ),
]


@pytest.mark.parametrize(
    ("make", "is_plain", "words", "next_step"), CASES, ids=[words[:40] for _, _, words, _ in CASES]
)
def test_what_cannot_travel_is_named_with_the_reason_and_the_next_step(
    make: Callable[[], Any], is_plain: bool, words: str, next_step: str
) -> None:
    error = refused(make(), is_plain=is_plain)
    assert error.message.startswith(words), error.message
    assert next_step in error.hint
    assert ("--trust" in error.hint) is (next_step == "--trust")


def test_a_variable_that_is_missing_is_said_to_be_where() -> None:
    here = pack_error({"no": "missing", "name": "x"}, "here", MOST)
    there = pack_error({"no": "missing", "name": "x"}, "dev", MOST)
    assert (here.message, there.message) == (
        "there is no variable x here",
        "there is no variable x on the machine",
    )
    assert "-i" in here.hint
    assert "-o" in there.hint
    assert here.code == "variable.missing"


@pytest.mark.parametrize(
    ("why", "words", "next_step"),
    [
        (
            "AttributeError: Can't get attribute 'Mine' on <module '__main__'>",
            "its class or function Mine is only defined in a cell here",
            "define Mine in a %%on dev cell",
        ),
        (
            "ModuleNotFoundError: No module named 'torch'",
            "it needs the module torch, which is not installed on dev",
            "setup:",
        ),
        (
            "ModuleNotFoundError: No module named 'numpy._core'",
            "numpy there is older than 2",
            "%pip install -U numpy",
        ),
        (
            "ValueError: whatever",
            "x cannot be read on dev: ValueError: whatever",
            "must be the same on both sides",
        ),
    ],
)
def test_what_cannot_be_read_on_the_machine_says_what_is_missing_there(
    why: str, words: str, next_step: str
) -> None:
    error = remote_read_error({"no": "unread", "name": "x", "why": why}, ["x"], "dev")
    assert words in error.message
    assert next_step in error.hint
    assert error.code == "variable.unreadable"


def test_what_cannot_be_read_here_says_what_is_missing_here() -> None:
    no_torch = local_read_error("x", ModuleNotFoundError("No module named 'torch'"), "dev")
    assert (
        no_torch.message
        == "x cannot be read here: it needs the module torch, which is not installed here"
    )
    assert "x.cpu().numpy()" in no_torch.hint
    no_gpu = local_read_error(
        "x", RuntimeError("Attempting to deserialize object on a CUDA device but …"), "dev"
    )
    assert "a GPU's memory" in no_gpu.message
    assert "x = x.cpu()" in no_gpu.hint


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"no": "cannot"},
        {"no": 3},
        {"no": "too-much", "size": "x" * 10**6},
        {"no": "cannot", "nature": ["x"], "why": "y" * 10**6},
        {"no": "?"},
    ],
)
def test_a_machine_that_says_anything_gets_a_short_error(told: Any) -> None:
    for error in (pack_error(told, "dev", MOST), remote_read_error(told, ["x"], "dev")):
        assert len(str(error)) < 1200
        assert error.hint


def test_what_the_line_or_the_agent_refuses_says_how_things_stand() -> None:
    now = "the cell ran, and x is still on dev"
    for code in (
        "agent.lost",
        "agent.timeout",
        "agent.no-room",
        "agent.no-box",
    ):
        error = transfer_error(AgentError("what it said", code=code), "dev", now)
        assert isinstance(error, VariableCopyError)
        assert now in str(error)
        assert error.hint
    other: NbprovError = AgentError("foul", code="agent.foul")
    assert transfer_error(other, "dev", now) is other


def test_nothing_is_packed_that_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_variables, "MOST_BYTES", 1000)
    with pytest.raises(VariableCopyError, match="with wide \\(bytearray\\) the variables take"):
        pack_variables({"wide": bytearray(2000)}, ["wide"], "dev")
    seen: list[int] = []
    assert len(pack_variables({"x": bytes(500)}, ["x"], "dev", seen.append)) == seen[-1] > 500
