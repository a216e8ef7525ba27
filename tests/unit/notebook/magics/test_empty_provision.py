"""A `%%provision` cell without a spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testing_shell import TestingShell

from nbprov import api
from nbprov.notebook.extension import load, unload
from nbprov.notebook.magics import provision
from nbprov.notebook.panels.provision_form import ProvisionForm
from nbprov.spec.yaml.diagnostics import SpecError


@pytest.fixture
def shell(nbprov_home: Path) -> Iterator[TestingShell]:
    made = TestingShell()
    load(made)
    yield made
    unload(made)
    api.close()


@pytest.mark.parametrize("cell", ["%%provision", "%%provision dev\n", "%%provision\n   \n"])
def test_somebody_who_can_fill_it_in_gets_the_form(
    shell: TestingShell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cell: str,
) -> None:
    monkeypatch.setattr(provision, "can_ask", lambda shell: True)
    shell.run_cell(cell)
    assert "What do you need?" in capsys.readouterr().out
    assert api.session().clusters() == []


def test_a_notebook_that_nobody_watches_is_told_what_is_missing(
    shell: TestingShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "can_ask", lambda shell: False)
    with pytest.raises(SpecError, match="the cell says nothing"):
        shell.run_cell("%%provision")


def test_without_the_extension_ipython_has_its_own_word(shell: TestingShell) -> None:
    before = list(shell.input_transformers_cleanup)
    unload(shell)
    assert len(shell.input_transformers_cleanup) == len(before) - 1
    load(shell)


def test_the_form_offers_what_is_on_sale_most_widely_first() -> None:
    sold = list(api.session().prices("").accelerators())
    form = ProvisionForm(sold)
    gpus = form.state()["gpus"]
    assert len(gpus) == len(sold) > 20
    assert [one["clouds"] for one in gpus] == sorted((len(o.clouds) for o in sold), reverse=True)
    example = form.text().split("\n", 1)[1]
    spec = api.session().parse(example.split("\n", 1)[1])
    assert spec.requests[0].accelerator is not None
    assert "%%provision dev" in form.html()
