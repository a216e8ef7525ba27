"""`%%nbprov plan` in a real kernel: reasons, what was left out, relaxations and notebook
variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest
from kernels import Kernel, new_kernel

pytestmark = pytest.mark.kernel

CANARY = "canary-secret-5521"


@pytest.fixture
def mirror(home: Path) -> Iterator[doubles.Mirror]:
    """Start the mirror from which the kernel's home downloads."""
    with doubles.mirror() as made:
        world.settings(home, made.address)
        made.host("cudo", world.v8_text(), doubles.hanging)
        yield made


def test_relax_is_the_cells_value_in_both_forms(shared: Kernel) -> None:
    outcome = shared.run(
        "%%nbprov plan --relax\nresources: {accelerators: A100, infra: local, max_price: 1}"
    )
    assert "left out: 4 offers: dearer than the cap of $1.00 an hour" in outcome.text
    sheet = outcome.displays[-1]["data"]
    assert set(sheet) == {"text/plain", "text/html"}
    assert "max_price: 2.70" in sheet["text/plain"]
    assert "<table" in sheet["text/html"]
    assert shared.value("_[0].field in ('max_price', 'use_spot')")


def test_a_plan_on_prices_of_clouds_without_an_account(shared: Kernel) -> None:
    outcome = shared.run(
        "%%nbprov plan --assume aws,gcp\nresources: {accelerators: A100:8, use_spot: prefer}\n"
        "budget: 50"
    )
    table, widget = (display["data"] for display in outcome.displays)
    assert "why here" in table["text/plain"]
    assert "1st choice, cheapest" in table["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert "planned as if these were set up: aws, gcp" in outcome.text
    assert "budget: $50.00 lasts" in outcome.text


def test_a_plan_renews_prices_behind_it(home: Path, mirror: doubles.Mirror) -> None:
    with new_kernel(home, NBPROV_CATALOG_REFRESH="on") as kernel:
        kernel.run("%%nbprov plan --assume aws\nresources: {accelerators: A100:8, infra: aws}")
        assert mirror.held.wait(40), "the plan was answered while the mirror hangs"
        assert len(mirror.requests("cudo")) == 1


def test_variables_through_a_cluster_s_life(home: Path) -> None:
    cell = (
        "%%provision dev --yes --wait\nresources: {accelerators: $gpus, infra: $where}\n"
        'max_lifetime: "${hours}h"\nenvs: {N: $n}\nsecrets: {TOKEN: $token}\n'
        "setup: echo $N ${#TOKEN}"
    )
    names = f"gpus = ['A100:1', 'H100:1']; where = 'local'; hours = 4; n = 3; token = {CANARY!r}"
    with new_kernel(home) as kernel:
        kernel.run(names)
        told = kernel.run(cell).everything
        assert "$gpus = ['A100:1', 'H100:1']" in told
        assert "$token = hidden" in told
        assert kernel.run("%nbprov logs dev setup").text == f"3 {len(CANARY)}\n"
        assert "dev is running and fits: nothing was launched" in kernel.run(cell).text
        kernel.run("n = 4")
        assert "nothing was launched" in kernel.run(cell).text
        kernel.run("gpus = 'A100:8'")
        assert "differs: accelerators: asked A100:8" in kernel.run(cell, ok=False).error_text
        kernel.restart()
        kernel.run(f"%load_ext nbprov\n{names}")
        assert "dev is running and fits: nothing was launched" in kernel.run(cell).text
        assert kernel.value(
            "__import__('nbprov').session().engine.ledger.runs.latest()[0].spec"
        ).startswith("resources: {accelerators:")
        assert (
            "86% likely"
            in kernel.run("%%nbprov plan\nresources: {accelerators: A100, infra: local}").everything
        )
        kernel.run("%nbprov down dev")
        everything = "".join(repr(message["content"]) for message in kernel.messages)
    assert CANARY not in everything.replace(names, "").replace(repr(names), "")
    for path in home.rglob("*"):
        if path.is_file() and path.relative_to(home).parts[0] not in ("local", "cache"):
            assert CANARY.encode() not in path.read_bytes(), path


def test_an_unknown_variable_has_near_names(shared: Kernel) -> None:
    shared.run("my_gpus = ['A100']")
    told = shared.run("%%nbprov plan\nresources: {accelerators: $my_gpu}", ok=False).error_text
    assert "did you mean `$my_gpus`?" in told
    assert len(told.splitlines()) <= 4
