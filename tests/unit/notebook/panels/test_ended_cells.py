"""Remote cells that ended while no page was open, and what is kept of their outputs."""

from __future__ import annotations

from typing import Any

from nbprov.notebook.output_record import MOST_CHARACTERS, OutputRecord
from nbprov.notebook.panels.ended_cells import MOST_CELLS, EndedCell, EndedCells
from nbprov.notebook.panels.page_link import PageLink


def shown(record: OutputRecord) -> list[Any]:
    return [one.get("text") or one["data"] for one in record.outputs]


def test_texts_of_one_stream_are_one_output_and_a_display_is_renewed_in_its_place() -> None:
    record = OutputRecord()
    for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c")):
        record.stream(name, text)
    record.display({"text/plain": "0 %"}, {}, "bar", is_update=False)
    record.stream("stdout", "d")
    record.display({"text/plain": "9 %"}, {}, "bar", is_update=True)
    record.display({"text/plain": "?"}, {}, "of another cell", is_update=True)
    assert shown(record) == ["ab", "c", {"text/plain": "9 %"}, "d"]


def test_a_cleared_output_is_gone_at_once_or_with_the_next_one() -> None:
    record = OutputRecord()
    record.stream("stdout", "a")
    record.clear(wait=True)
    assert shown(record) == ["a"]
    record.stream("stdout", "b")
    assert shown(record) == ["b"]
    record.clear(wait=False)
    assert shown(record) == []


def test_too_much_is_not_kept_in_part_until_it_is_cleared() -> None:
    record = OutputRecord()
    record.stream("stdout", "x" * MOST_CHARACTERS)
    assert record.is_whole
    record.stream("stdout", "y")
    assert (record.outputs, record.is_whole) == ([], False)
    record.clear(wait=True)
    record.stream("stdout", "z")
    assert (shown(record), record.is_whole) == (["z"], True)


def ended(id: str, mark: str = "t-1") -> EndedCell:
    return EndedCell(id, mark, ())


def test_the_latest_run_of_a_cell_is_kept_until_a_page_shows_it() -> None:
    cells = EndedCells()
    cells.add(ended("a"))
    cells.add(ended("a", "t-2"))
    assert cells.marks() == [{"cell": "a", "mark": "t-2"}]
    assert cells.find("a", "t-1") is None
    cells.seen("a", "t-1")
    assert cells.find("a", "t-2") is not None
    cells.seen("a", "t-2")
    assert cells.marks() == []


def test_a_cell_that_runs_again_is_forgotten_at_once() -> None:
    cells = EndedCells()
    cells.add(ended("a"))
    cells.begins("a")
    cells.begins("never ran")
    assert cells.marks() == []


def test_a_progress_bar_and_a_live_plot_take_the_room_of_their_last_state() -> None:
    record = OutputRecord()
    for done in range(200):
        record.stream("stderr", f"\r{done} %" + "x" * 50_000)
        record.display({"text/html": "y" * 50_000}, {}, "plot", is_update=done > 0)
    record.stream("stderr", "\rdone\nnext")
    assert record.is_whole
    assert len(record.outputs) == 3
    assert shown(record)[-1] == "done\nnext"


def test_few_cells_are_kept() -> None:
    cells = EndedCells()
    for number in range(MOST_CELLS + 5):
        cells.add(ended(str(number)))
    assert [one["cell"] for one in cells.marks()] == [str(n) for n in range(5, MOST_CELLS + 5)]


def test_a_page_that_lacks_a_cell_is_given_it_and_one_that_tells_nonsense_nothing() -> None:
    told: list[dict[str, Any]] = []
    link = PageLink()
    link._tell = told.append  # type: ignore[method-assign]
    link.cell_ended(EndedCell("a", "t-1", ({"output_type": "stream"},)))
    assert told.pop() == {"type": "cells", "cells": [{"cell": "a", "mark": "t-1"}]}
    link._receive(None, {"type": "cell-missing", "cell": "a", "mark": "t-1"}, [])
    assert told.pop() == {
        "type": "cell",
        "cell": "a",
        "mark": "t-1",
        "outputs": [{"output_type": "stream"}],
    }
    for content in ({"type": "cell-missing"}, {"type": "cell-missing", "cell": 5, "mark": None}):
        link._receive(None, content, [])
    link._receive(None, {"type": "cell-seen", "cell": "a", "mark": "t-1"}, [])
    link._receive(None, {"type": "forms", "forms": []}, [])
    assert told == []
