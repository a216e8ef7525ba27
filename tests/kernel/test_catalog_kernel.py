"""`%nbprov catalog refresh` in a real kernel: progress, an interrupt, and a refresh in the
background."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest
from kernels import new_kernel

pytestmark = pytest.mark.kernel


@pytest.fixture
def mirror(home: Path) -> Iterator[doubles.Mirror]:
    """Start the mirror from which the kernel's home downloads."""
    with doubles.mirror() as made:
        world.settings(home, made.address)
        made.host("lambda", world.v8_text())
        yield made


def test_progress_is_one_output_that_ends_in_a_sentence(home: Path, mirror: doubles.Mirror) -> None:
    with new_kernel(home) as kernel:
        outcome = kernel.run("x = %nbprov catalog refresh lambda --force")
        live = [d for d in outcome.displays if d.get("transient", {}).get("display_id")]
        assert len(live) == 1
        kernel.renewed(live[0], "prices: 1 updated")
        assert outcome.text == ""
        table = kernel.run("x")
        assert "<table" in table.displays[0]["data"]["text/html"]
        assert "● updated" in table.values[0]


def test_where_nobody_looks_there_are_lines(home: Path, mirror: doubles.Mirror) -> None:
    with new_kernel(home, is_notebook=False) as kernel:
        outcome = kernel.run("%nbprov catalog refresh lambda --force")
        assert "● updated" in outcome.text
        assert len(outcome.displays) == 1


def test_an_interrupt_is_one_line_and_leaves_no_half_file(
    home: Path, mirror: doubles.Mirror
) -> None:
    mirror.host("vast", world.v8_text(), doubles.hanging)
    with new_kernel(home) as kernel:
        request = kernel.send("%nbprov catalog refresh vast")
        assert mirror.held.wait(40)
        kernel.manager.signal_kernel(signal.SIGINT)
        outcome = kernel.finish(request)
        assert "the refresh was interrupted; no cloud was renewed" in outcome.error_text
        assert not (home / "catalogs" / "vast" / "vms.csv").exists()
        assert "shipped" in kernel.run("%nbprov catalog").values[0]


def test_the_first_price_question_refreshes_behind_it(home: Path, mirror: doubles.Mirror) -> None:
    mirror.host("cudo", world.v8_text(), doubles.hanging)
    with new_kernel(home, NBPROV_CATALOG_REFRESH="on") as kernel:
        kernel.run("1 + 1")
        assert mirror.asked == []
        kernel.run("%prices A100")
        assert mirror.held.wait(40), "the question was answered while the mirror hangs"
        kernel.run("%prices A100")
        assert len(mirror.requests("cudo")) == 1
