"""What a spec sends is checked and named with the values in its paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbprov.api.spec_inputs import collect, filled_outputs
from nbprov.api.uploads import planned_files, sent_notes
from nbprov.machines.files.output_targets import OutputFolders
from nbprov.model.errors import NbprovError
from nbprov.spec import parse


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for made in ("home/private", "notebook/data", "notebook/code"):
        (tmp_path / made).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    return tmp_path / "notebook"


def planned(text: str, notebook: Path, **env: str) -> tuple[tuple[str, ...], str]:
    outputs = OutputFolders.agreed(str(notebook), "", "dev")
    return planned_files(parse(text), env, outputs)


@pytest.mark.parametrize(
    "text",
    [
        "envs: {DATA: ./data}\nfile_mounts: {~/d: $DATA}",
        "envs: {W: code}\nworkdir: ./$W",
        "envs: {B: s3://bucket/x}\nfile_mounts: {/d: $B}",
        "envs: {B: bucket}\nfile_mounts: {/d: s3://$B/x}",
        "envs: {REF: main}\nworkdir: {url: 'https://host/x.git', ref: $REF}",
    ],
)
def test_a_source_has_the_values_of_its_variables(text: str, notebook: Path) -> None:
    given = collect(parse(text), {}, folder=str(notebook))
    told, refusal = planned(text, notebook)
    assert refusal == ""
    assert told == sent_notes(parse(text), given, str(notebook))


def test_a_value_that_is_asked_for_is_checked_once_it_is_known(notebook: Path) -> None:
    spec = parse("envs: {W: null}\nworkdir: $W")
    assert collect(spec, {}, lambda *_: "code", str(notebook)).envs == {"W": "code"}
    with pytest.raises(NbprovError, match=r"workdir: .*nosuch does not exist"):
        collect(spec, {}, lambda *_: "nosuch", str(notebook))


def test_nobody_is_asked_for_values_of_a_cell_that_cannot_be_used(notebook: Path) -> None:
    def ask(name: str, hidden: bool) -> str:
        raise AssertionError(name)

    with pytest.raises(NbprovError, match="nosuch does not exist"):
        collect(parse("secrets: {TOKEN_: null}\nworkdir: nosuch"), {}, ask, str(notebook))


def test_a_folder_with_the_name_of_a_variable_does_not_hide_what_is_sent(notebook: Path) -> None:
    (notebook / "$HOME").mkdir()
    text = "envs: {HOME: null}\nfile_mounts: {/d: $HOME}"
    with pytest.raises(NbprovError, match="holds your whole home"):
        collect(parse(text), {}, folder=str(notebook))
    _, refusal = planned(text, notebook)
    assert "holds your whole home" in refusal


def test_the_note_names_what_the_variable_means(notebook: Path) -> None:
    text = "envs: {P: ~/private}\nfile_mounts: {/d: $P}"
    given = collect(parse(text), {}, folder=str(notebook))
    (note,) = sent_notes(parse(text), given, str(notebook))
    assert str(notebook.parent / "home" / "private") in note
    assert planned(text, notebook)[0] == (note,)
    (note, *_) = planned("envs: {P: null}\nworkdir: $P", notebook, P="~/private")[0]
    assert "private is sent to the machine" in note


def test_a_plan_says_what_waits_for_a_value(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = "envs: {NOWHERE: null}\nfile_mounts: {/d: $NOWHERE/x, /e: data}"
    told, refusal = planned(text, notebook)
    assert (told, refusal) == (("file_mounts: $NOWHERE/x is known once it has a value",), "")


def test_a_plan_says_that_a_launch_would_be_refused(notebook: Path) -> None:
    for text in ("workdir: nosuch", "workdir: ~nosuchuser/x", "outputs: {/a: ~nosuchuser/x}"):
        assert "nosuch" in planned(text, notebook)[1]


def test_a_repository_without_its_value_keeps_no_output_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    spec = parse("envs: {NOWHERE: null, RUN: 7}\nworkdir: {url: $NOWHERE}\noutputs: [out/$$RUN]")
    filled = filled_outputs(spec, {})
    assert (filled.outputs[0].source, filled.workdir) == ("out/7", spec.workdir)


def test_only_what_is_of_the_environment_is_said_to_be(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_", "x")
    spec = parse("secrets: {TOKEN_: null}")
    (note,) = sent_notes(spec, collect(spec, {}, folder=str(notebook)), str(notebook))
    assert "the machine gets TOKEN_ of this kernel's environment" in note
    given = collect(spec, {"TOKEN_": "mine"}, folder=str(notebook))
    assert sent_notes(spec, given, str(notebook)) == ()
