"""The log of a setup: every line once where lines are printed, the latest lines in a panel."""

from __future__ import annotations

from dataclasses import replace

from sample_views import ready_run

from nbprov.notebook.rendering.run_facts import LOG_SHOWN, run_facts
from nbprov.notebook.rendering.run_lines import run_lines
from nbprov.notebook.rendering.runs import run_html, run_text


def test_lines_are_printed_once_each() -> None:
    first = replace(ready_run(), message="setup: b", log=("a", "b"), logged=2)
    second = replace(first, log=("a", "b", "c\x1b[2Jd"), logged=3)
    assert run_lines(first, first) == []
    (line,) = run_lines(first, second)
    assert line.startswith("c")
    assert "\x1b" not in line


def test_what_came_too_fast_is_said_to_be_left_out() -> None:
    first = replace(ready_run(), log=("a",), logged=1)
    flood = replace(first, log=("y", "z"), logged=1000)
    assert run_lines(first, flood) == ["… some lines of the log are not shown …", "y", "z"]


def test_a_panel_shows_the_latest_ones_while_it_goes_on() -> None:
    going = replace(
        ready_run(), message="setup: 19", log=tuple(f"line <{n}>" for n in range(20)), logged=20
    )
    assert run_facts(going).log == going.log[-LOG_SHOWN:]
    assert "line &lt;19&gt;" in run_html(going)
    assert "line <11>" not in run_text(going)
    assert "line <19>" in run_text(going)
    over = replace(going, message="")
    assert run_facts(over).log == ()
    assert run_facts(replace(going, error="setup ended with code 3")).log == ()
