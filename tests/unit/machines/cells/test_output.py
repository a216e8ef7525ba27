"""The text of a cell as `--save` writes it."""

from __future__ import annotations

from nbprov.machines.cells.output import KEPT_TEXT, OutputBudget, OutputCollation
from nbprov.remote.agent.messages import OutputPiece


def test_a_saved_text_names_what_was_dropped_and_glues_no_display_to_a_line() -> None:
    log = OutputCollation(OutputBudget(None, ""), "run", is_log=True)
    log.take(OutputPiece(7, 0.0, "gap", content={"from": 1, "to": 6}))
    for number, text in ((8, "one\n"), (9, "two")):
        log.take(OutputPiece(number, 0.0, "stream", text, {"name": "stdout", "text": text}))
    shown = {"data": {"text/plain": "<Figure>"}, "metadata": {}}
    log.take(OutputPiece(10, 0.0, "display_data", content=shown))
    log.take(OutputPiece(11, 0.0, "stream", "three\n", {"name": "stdout", "text": "three\n"}))
    dropped, *rest = log.text.splitlines()
    assert "was dropped here: the machine keeps the last 32 MB" in dropped
    assert rest == ["one", "two", "<Figure>", "three"]


def test_a_text_that_lacks_something_says_so() -> None:
    whole, cut = (OutputCollation(OutputBudget(None, ""), "run", is_log=True) for _ in range(2))
    for log, text in ((whole, "one\n"), (cut, "x" * (KEPT_TEXT + 1))):
        log.take(OutputPiece(1, 0.0, "stdout", text))
    assert (whole.has_gap, cut.has_gap) == (False, True)
    whole.take(OutputPiece(7, 0.0, "gap", content={"from": 2, "to": 6}))
    assert whole.has_gap
