"""What machines say within errors is shown in many places, and moves nobody's cursor in any."""

from __future__ import annotations

import pytest

from nbprov.machines.engines.values import EngineFailed, state_of
from nbprov.model.errors import NbprovError


def test_an_error_repeats_the_words_of_a_machine_without_its_escapes() -> None:
    error = NbprovError("setup failed\n    \x1b]0;title\x07\x1b[2Jgone \u202egnp.exe\ud83d \x9b31m", hint="next\x1b[H")
    shown = "\n".join([str(error), error.message, error.hint, *error.render(), *map(str, error.args)])
    assert all(c.isprintable() or c == "\n" for c in shown)
    shown.encode()
    assert error.message.startswith("setup failed\n    ")


def test_a_state_that_is_too_deep_is_no_state() -> None:
    with pytest.raises(EngineFailed):
        state_of("[" * 100_000, ["scheduler"])
