"""The end of a launch's log."""

from __future__ import annotations

from pathlib import Path

from nbprov.api.reports.launch_log import MOST_BYTES, end_of_log


def test_the_end_of_a_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    assert end_of_log(path) == "", "it may have been removed"
    path.write_text("accepted\nready\n")
    assert end_of_log(path) == "accepted\nready\n"
    lines = [f"line {number} ä" for number in range(MOST_BYTES // 8)]
    path.write_text("\n".join(lines), encoding="utf-8")
    told = end_of_log(path).split("\n")
    assert told == lines[-len(told) :]
    assert 0 < len("\n".join(told).encode()) <= MOST_BYTES
