"""A name that does not exist is shown in its line, with a caret below it."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbprov
import nbprov.api
from nbprov.planning.errors import PlanError
from nbprov.planning.excerpts import excerpt


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("resources:\n  infra: awss\n  accelerators: A100", "awss"),
        ("resources:\n  infra: aws/us-esat-1", "us-esat-1"),
        ("resources:\n  cloud: aws\n  instance_type: p99.huge", "p99.huge"),
        ("resources:\n  any_of:\n    - infra: gcp\n    - {infra: gpc}", "gpc"),
    ],
)
def test_a_name_that_does_not_exist_has_a_caret(nbprov_home: Path, spec: str, word: str) -> None:
    session = nbprov.session()
    try:
        with pytest.raises(PlanError) as refused:
            session.plan(spec)
    finally:
        nbprov.api.close()
    lines = refused.value.render()
    at = next(i for i, line in enumerate(lines) if line.endswith("^"))
    assert lines[at - 1][lines[at].index("^") :].startswith(word)


def test_a_gpu_that_nobody_sells_has_a_caret(nbprov_home: Path) -> None:
    session = nbprov.session()
    try:
        run = session.provision("resources:\n  accelerators: H1000:8", "dev")
        lines = str(run.error).splitlines()
    finally:
        nbprov.api.close()
    assert "  |   accelerators: H1000:8" in lines
    assert "  |                 ^" in lines


def test_a_key_of_the_same_spelling_is_not_meant() -> None:
    source = "resources:\n  cloud: cloud\n"
    assert excerpt(source, "cloud")[1] == "  |          ^"
    assert excerpt(source, "nowhere") == ()
    assert excerpt(source, "") == ()
