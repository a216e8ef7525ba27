"""The magics in a shell without a kernel: loading, lines, options and completion."""

from __future__ import annotations

import contextlib
import keyword
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import CompletionContext

sys.path.insert(0, str(Path(__file__).parents[1]))

from testing_shell import TestingShell

import nbprov
from nbprov import api
from nbprov.model.errors import UsageError
from nbprov.model.secret import Secret
from nbprov.notebook.arguments import HelpWanted, MagicParser, environment
from nbprov.notebook.commands import registry
from nbprov.notebook.completion.matcher import match
from nbprov.notebook.logfile import LogFile
from nbprov.notebook.magics import parsers
from nbprov.notebook.magics.handle_variable import variable_of

PARSERS = [
    parsers.provision_parser,
    parsers.prices_parser,
    parsers.on_parser,
    parsers.clusters_parser,
]


def test_a_line_of_a_cell_keeps_nothing_of_the_line_before() -> None:
    assert parsers.on_parser() is parsers.on_parser()
    full = parsers.on_parser().parse_line("dev -i a -o b --bash --env X=1 --nodes all")
    plain = parsers.on_parser().parse_line("dev")
    assert (full.input, full.output, full.env, full.bash, full.nodes) == (
        ["a"],
        ["b"],
        ["X=1"],
        True,
        "all",
    )
    assert (plain.input, plain.output, plain.env, plain.bash, plain.nodes) == (
        [],
        [],
        [],
        False,
        "head",
    )


@pytest.fixture
def shell() -> Iterator[TestingShell]:
    made = TestingShell()
    nbprov.load_ipython_extension(made)
    try:
        yield made
    finally:
        nbprov.unload_ipython_extension(made)
        api.close()


def test_load_is_idempotent_and_unload_leaves_nothing() -> None:
    shell = TestingShell()
    before = (
        len(shell.Completer.custom_matchers),
        len(shell.configurables),
        len(shell.events.callbacks["post_run_cell"]),
    )
    handlers = list(logging.getLogger("nbprov").handlers)
    for _ in range(2):
        nbprov.load_ipython_extension(shell)
    assert {"provision", "on", "nbprov"} <= set(shell.magics_manager.magics["cell"])
    assert {"prices", "clusters", "nbprov"} <= set(shell.magics_manager.magics["line"])
    for _ in range(2):
        nbprov.unload_ipython_extension(shell)
    assert not {"provision", "on", "nbprov", "prices", "clusters"} & {
        *shell.magics_manager.magics["cell"],
        *shell.magics_manager.magics["line"],
    }
    after = (
        len(shell.Completer.custom_matchers),
        len(shell.configurables),
        len(shell.events.callbacks["post_run_cell"]),
    )
    assert after == before
    assert logging.getLogger("nbprov").handlers == handlers


def test_unload_leaves_a_name_that_another_extension_took(shell: TestingShell) -> None:
    shell.register_magic_function(lambda line: "theirs", "line", "prices")
    nbprov.unload_ipython_extension(shell)
    assert shell.run_line_magic("prices", "") == "theirs"


@pytest.mark.parametrize(
    "line", ["%prices --help", "%clusters -h", "%nbprov", "%nbprov help", "%nbprov down --help"]
)
def test_help_is_printed_and_opens_no_session(
    shell: TestingShell, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    shell.run_cell(line)
    assert "%" in capsys.readouterr().out
    assert api.current() is None


def test_a_line_is_not_expanded(shell: TestingShell) -> None:
    shell.user_ns["a100"] = "H100"
    with pytest.raises(UsageError, match="letters, digits"):
        shell.run_cell("%%provision {a100}\nresources: {infra: local}")


def test_an_error_is_raised_through_the_magic(shell: TestingShell) -> None:
    with pytest.raises(UsageError, match=r"did you mean %nbprov costs\?"):
        shell.run_cell("%nbprov cost")


def test_demo_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBPROV_DEMO", "1")
    shell = TestingShell()
    nbprov.load_ipython_extension(shell)
    try:
        assert shell.run_line_magic("config", "Nbprov.demo") is True
    finally:
        nbprov.unload_ipython_extension(shell)


def test_nothing_has_been_launched_yet(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("costs", "attempts", "log"):
        shell.run_line_magic("nbprov", command)
    assert capsys.readouterr().out == "nothing has been launched yet\n" * 3
    shell.run_line_magic("nbprov", "down --all")
    assert capsys.readouterr().out == "no cluster is live\n"


@given(line=st.text(max_size=60), which=st.sampled_from(range(len(PARSERS))))
def test_no_line_does_more_than_parse_help_or_a_usage_error(line: str, which: int) -> None:
    with contextlib.suppress(UsageError, HelpWanted):
        PARSERS[which]().parse_line(line)


@given(word=st.text(max_size=20), rest=st.text(max_size=20))
def test_no_command_line_gets_further_than_a_usage_error(word: str, rest: str) -> None:
    if word.strip() in (*registry.COMMANDS, "", "--help", "-h", "help"):
        return
    line = f"x{word} {rest}"
    with pytest.raises(UsageError):
        registry.run_command(None, line, None)


@given(st.from_regex(r"[A-Za-z0-9]+(?:[._-]{1,2}[A-Za-z0-9]+)*", fullmatch=True))
def test_every_name_gives_a_variable(name: str) -> None:
    variable = variable_of(name)
    assert variable.isidentifier()
    assert not keyword.iskeyword(variable)


def test_variables_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "canary")
    monkeypatch.delenv("NOT_HERE", raising=False)
    found = environment(["A=1", "B=x=y", "C=", "HERE"], "%%provision")
    assert found == {"A": "1", "B": "x=y", "C": "", "HERE": Secret("canary")}
    assert "canary" not in repr(found)
    for bad in ("=1", "", "1x=canary", "A B=canary"):
        with pytest.raises(UsageError, match="NAME=VALUE") as refused:
            environment([bad], "%%provision")
        assert "canary" not in str(refused.value)
    with pytest.raises(UsageError, match="the kernel's environment has no NOT_HERE") as missing:
        environment(["NOT_HERE"], "%%provision")
    assert missing.value.code == "env.missing"


def test_a_value_that_no_process_can_be_given_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HERE", "x" * 200_000)
    for item in ("HERE", "HERE=a\0b", "HERE=a\ud800b"):
        with pytest.raises(UsageError, match="%%on: the value of HERE ") as caught:
            environment([item], "%%on")
        assert (caught.value.code, "xx" in caught.value.message) == ("env.unfit", False)


def test_a_remark_at_the_end_of_a_line_is_none_of_its_words() -> None:
    assert parsers.on_parser().parse_line("gpu  # the big one").name == "gpu"
    assert parsers.provision_parser().parse_line("dev --yes # don't ask").yes
    assert parsers.prices_parser().parse_line("# what is there?").accelerator == ""
    assert registry.parser_of("down").parse_line("gpu # bye").names == ["gpu"]
    kept = parsers.on_parser().parse_line(
        "a#b --env 'NOTE=x # y' --env AT=https://x/#y --env C=\\#d --env \"E=it's # z\""
    )
    assert (kept.name, kept.env) == ("a#b", ["NOTE=x # y", "AT=https://x/#y", "C=#d", "E=it's # z"])
    with pytest.raises(UsageError, match="No closing quotation"):
        parsers.on_parser().parse_line("gpu 'open # quote")


def test_a_shells_line_keeps_its_remarks_and_a_remark_begins_none() -> None:
    job = registry.parser_of("jobs").parse_line("dev submit -- python train.py # epoch 3")
    assert job.script == "python train.py # epoch 3"
    assert registry.parser_of("jobs").parse_line("dev # as in -- python train.py").script is None


def test_a_line_of_a_remark_alone_is_an_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    registry.run_command(None, "# what can it do?", None)
    assert capsys.readouterr().out.startswith("%nbprov COMMAND")


def test_an_option_tells_whether_it_wants_a_value() -> None:
    parser: MagicParser = parsers.provision_parser()
    assert parser.option("--env") is not None
    assert parser.option("--yes") is None
    assert parser.option("dev") is None


def offered(cell: str) -> list[str]:
    position = cell.index("|")
    text = cell.replace("|", "")
    line = text[:position].count("\n")
    column = position - (text[:position].rfind("\n") + 1)
    context = CompletionContext(
        token="", full_text=text, cursor_position=column, cursor_line=line, limit=500
    )
    return [completion.text for completion in match(context)["completions"]]


def test_completion_opens_no_session() -> None:
    assert offered("%%on |\n1") == []
    assert "A100" in offered("%prices a10|")
    assert offered("%%provision x --on-interrupt c|\n") == ["cancel"]
    assert offered("%nbprov nosuch |") == []
    assert "p4d.24xlarge" in offered("%prices --cloud aws --type p4d|")
    assert "us-central1-a" in offered("%prices T4 --zone us-cen|")
    assert {"aws", "azure", "all"} == set(offered("%%nbprov plan --assume a|\n"))
    assert offered("print(|)") == []
    assert api.current() is None


@given(st.text(max_size=80), st.integers(0, 90))
def test_completion_never_fails(body: str, position: int) -> None:
    cell = f"%%provision dev\n{body}"
    at = min(position, len(cell))
    offered(cell[:at].replace("|", "") + "|" + cell[at:].replace("|", ""))


def test_the_log_is_made_when_there_is_something_to_write_and_begun_anew_when_long(
    tmp_path: Path,
) -> None:
    path = tmp_path / "logs" / "nbprov.log"
    handler = LogFile(path)
    record = logging.LogRecord(
        "nbprov.engine", logging.WARNING, __file__, 1, "one %s", ("thing",), None
    )
    assert not path.parent.exists()
    handler.handle(record)
    handler.close()
    assert path.read_text().endswith("WARNING nbprov.engine: one thing\n")
    path.write_text("x" * 2_000_001)
    again = LogFile(path)
    again.handle(record)
    again.close()
    assert len(path.read_text()) < 200
    assert path.with_suffix(".old.log").exists()
