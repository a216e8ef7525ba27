"""Errors that quote machines are shown in many places, and move nobody's cursor."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbprov.machines.engines.engine_state import EngineFailed, state_of
from nbprov.machines.variables import transfer
from nbprov.machines.variables.transfer import TransferInterrupted
from nbprov.model.errors import NbprovError
from nbprov.on_machine.pack_values import MARK
from nbprov.remote.errors import SshCode, SshError


def test_an_error_repeats_the_words_of_a_machine_without_its_escapes() -> None:
    error = NbprovError(
        "setup failed\n    \x1b]0;title\x07\x1b[2Jgone \u202egnp.exe\ud83d \x9b31m",
        hint="next\x1b[H",
    )
    shown = "\n".join(
        [str(error), error.message, error.hint, *error.render(), *map(str, error.args)]
    )
    assert all(c.isprintable() or c == "\n" for c in shown)
    shown.encode()
    assert error.message.startswith("setup failed\n    ")


def test_a_state_that_is_too_deep_is_no_state() -> None:
    with pytest.raises(EngineFailed):
        state_of("[" * 100_000, ["scheduler"])


class Gone:
    """An agent's client whose machine has been replaced."""

    def __init__(self) -> None:
        self.touched = asyncio.Event()
        self.boxes = self

    async def get(self, box: str, offset: int, size: int) -> bytes:
        self.touched.set()
        raise SshError(SshCode.HOST_KEY, "another machine answers there")

    async def drop(self, box: str) -> None:
        raise SshError(SshCode.HOST_KEY, "another machine answers there")


def test_a_box_is_said_to_be_wanted_for_as_long_as_it_is_and_is_let_go_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfer, "TOUCH_SECONDS", 0.001)

    async def copy() -> list[None]:
        agent = Gone()
        async with transfer._box(agent):  # type: ignore[arg-type]
            for _ in range(2):
                agent.touched.clear()
                async with asyncio.timeout(60):
                    await agent.touched.wait()
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(task for task in transfer._dropping if task.get_loop() is loop)
        )

    assert asyncio.run(copy()) == [None]


@pytest.mark.parametrize("said", ["[" * 50_000, "{" * 50, "[]", '"x"', "1" * 50_000])
def test_an_answer_of_a_copy_that_is_none_is_told_as_such(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cell(*given: Any, **more: Any) -> Any:
        return SimpleNamespace(text=f"a thread was here\n{MARK}{said}\n")

    async def filled(*given: Any) -> str:
        return "path"

    monkeypatch.setattr(transfer, "own_cell", cell)
    monkeypatch.setattr(transfer, "_fill", filled)
    with pytest.raises(TransferInterrupted, match="cannot be read"):
        asyncio.run(transfer._run_program(None, Gone(), {"do": "take"}, None))  # type: ignore[arg-type]


def test_an_answer_of_a_copy_stands_on_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print("a thread's half line", end="")
    request = {"do": "take", "path": str(tmp_path / "none"), "names": [], "size": 0}
    exec(transfer._program(), {"__name__": "there", "space": {}, "request": request})
    lines = capsys.readouterr().out.split("\n")
    assert [line.startswith(MARK) for line in lines] == [False, True, False]
