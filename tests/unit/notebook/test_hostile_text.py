"""Text that others wrote is plain wherever it is shown: nothing in it controls a terminal."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock

import nbprov
from nbprov.clouds.web.error_text import refusal
from nbprov.machines.sanitize.text import clean_text
from nbprov.model.clusters import RunState
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.text.log_filter import LOGGERS
from nbprov.model.text.plain import one_line, plain, printable
from nbprov.notebook.logfile import LogFile
from nbprov.notebook.panels.output_line import OutputLine
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column, html_text, safe_text, text_table
from nbprov.notebook.terminal import say
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.reconcile_report import ReconcileReport
from nbprov.provisioning.run.run_log import RunLog
from nbprov.provisioning.supervision.condition_notes import why
from nbprov.remote.errors import SshCode, SshError
from nbprov.runtime.fault_log import log_fault

HOSTILE = (
    "no\x1b[2J stock\x1b]0;owned\x07 \x1b]52;c;Zm9v\x1b\\left\x9b31m in\x00 \u202eenoz\u202c"
    "\u2066x\u2069\r\x08\x7f\x85\u2028 \u200b\ufeffeast\U000e0041\udc80"
)
_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def _check(shown: str) -> None:
    """It shows the words and nothing that controls."""
    assert not _BAD.search(shown), ascii(shown)
    assert "stock" in shown
    assert "owned" not in shown, "a title that a terminal would have taken"
    assert "Zm9v" not in shown, "what would have gone to the clipboard"
    assert "[2J" not in shown
    shown.replace("\udc80", "?").encode()


def _raised(error: BaseException) -> str:
    return str(error)


ENTRIES: dict[str, Callable[[], str]] = {
    "a cloud's message": lambda: Failure(Cause.CAPACITY, HOSTILE).sentence(),
    "a cloud's code": lambda: Failure(Cause.CAPACITY, "stock", code=HOSTILE).code,
    "a changed failure": lambda: replace(Failure(Cause.SPOT), message=HOSTILE).message,
    "an error of a cloud": lambda: _raised(CloudError(Failure(Cause.QUOTA, HOSTILE))),
    "the body of a refusal": lambda: _raised(refusal("https://cloud", 400, HOSTILE)),
    "the words of an ssh server": lambda: _raised(SshError(SshCode.NOT_UP, HOSTILE)),
    "an error": lambda: _raised(NbprovError(HOSTILE)),
    "a next step": lambda: _raised(NbprovError("stopped", hint=HOSTILE)),
    "an interrupt": lambda: Interrupted(HOSTILE).message,
    "why a machine is not reached": lambda: why(OSError(HOSTILE)),
    "a line at load": lambda: _reported(HOSTILE),
    "a table's cell": lambda: "\n".join(text_table([Column("name")], [[HOSTILE]])),
    "a table's cell in HTML": lambda: html_text(HOSTILE),
    "a line of a panel": lambda: safe_text(HOSTILE),
    "a result": lambda: ResultTable(HOSTILE, [Column("a")], [[HOSTILE]], [HOSTILE], []).text(),
    "a result in HTML": lambda: ResultTable(HOSTILE, [Column("a")], [["b"]], [], []).html(),
    "one line": lambda: one_line(HOSTILE),
}


def _reported(text: str) -> str:
    report = ReconcileReport()
    report.say("run", text)
    return str(report)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_what_others_wrote_is_plain(entry: Callable[[], str]) -> None:
    _check(entry())


def test_what_is_printed_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    say("dev:", HOSTILE)
    OutputLine(HOSTILE)
    for line in capsys.readouterr().out.splitlines():
        _check(line)


def test_what_is_logged_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path))
    clock = ManualClock()
    RunLog(tmp_path / "run.log", clock).line(HOSTILE)
    handler, log = LogFile(tmp_path / "nbprov.log"), logging.Logger("nbprov.test")
    log.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("%s", HOSTILE)
    handler.close()
    for name in ("run.log", "nbprov.log"):
        _check((tmp_path / name).read_text(encoding="utf-8"))


def test_a_record_is_plain_for_the_handlers_of_others_too() -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger().addHandler(handler)
    try:
        for name in LOGGERS:
            log = logging.getLogger(name)
            try:
                raise ValueError(HOSTILE)
            except ValueError as error:
                log_fault(log, error, f"{name}: %s", HOSTILE)
                log.exception("%s", HOSTILE, stack_info=True)
            log.warning("%d " + HOSTILE, "no number")
            log.error(ValueError(HOSTILE))
    finally:
        logging.getLogger().removeHandler(handler)
    _check(shown.getvalue())
    assert shown.getvalue().count("Traceback") == 2 * len(LOGGERS)


def test_every_logger_of_the_package_makes_its_records_plain() -> None:
    root = Path(nbprov.__file__).parent
    named = {
        name
        for path in root.rglob("*.py")
        if "on_machine" not in path.parts
        for name in re.findall(r'getLogger\("(nbprov[\w.]*)"', path.read_text(encoding="utf-8"))
    }
    assert named <= set(LOGGERS)


def test_what_the_ledger_has_for_people_is_plain(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite3", ManualClock(), "kernel-1")
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, HOSTILE)
    ledger.runs.move("run-1", RunState.FAILED, HOSTILE, HOSTILE)
    run = ledger.runs.get("run-1")
    assert run is not None
    for text in (ledger.events.of_run("run-1")[0].text, run.message, run.error):
        _check(text)
    ledger.close()


def test_output_of_cells_keeps_its_colours_and_nothing_else() -> None:
    assert clean_text("\x1b[31mred\x1b[0m \x1b[2Jgone\x1b]0;t\x07\u202e") == (
        "\x1b[31mred\x1b[0m gone"
    )


@given(st.text())
def test_plain_text_is_printable_and_stays_as_it_is(text: str) -> None:
    shown = plain(text)
    assert all(c.isprintable() or c in "\n\t" or "\ud800" <= c <= "\udfff" for c in shown)
    assert plain(shown) == shown
    printable(text).encode()
    assert not set(one_line(text)) - {" "} & set("\n\t")


@given(st.text(alphabet="\x1b[]0;m\x07\x9bAz\\ \n", max_size=60))
def test_no_pieces_make_a_sequence(text: str) -> None:
    assert "\x1b" not in plain(text)
    assert "\x9b" not in plain(text)
