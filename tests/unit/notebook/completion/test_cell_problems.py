"""What is wrong in a cell that is typed: the place of each problem, and no false alarm."""

from __future__ import annotations

import pathlib
import re

import pytest

from nbprov.notebook.completion.cell_problems import LONGEST_CELL, problems_in

EXAMPLES = sorted(pathlib.Path(__file__).parents[4].glob("example_notebooks/*.ipynb"))


class Frame:
    """An object of the notebook whose text nobody may ask for while a cell is typed."""

    def __str__(self) -> str:
        raise AssertionError("code of the notebook ran")

    __repr__ = __str__

    def __getattr__(self, name: str) -> object:
        raise AssertionError("code of the notebook ran")


def marked(source: str) -> list[tuple[str, str]]:
    """Return the text that each problem underlines, and what is said of it."""
    lines = source.split("\n")
    return [
        (lines[one["line"] - 1][one["column"] - 1 :][: one["length"]], one["message"])
        for one in problems_in(source, {"gpu": "A100:8", "wrong": "awz", "frame": Frame()})
    ]


@pytest.mark.parametrize(
    ("source", "word", "said"),
    [
        (
            "%%provision dev\nresources:\n  acelerators: A100",
            "acelerators",
            "unknown field `acelerators` under `resources`; did you mean `accelerators`?",
        ),
        (
            "\n\n%%provision dev\n\nresources:\n  accelerators: H1000:8",
            "H1000",
            "no cloud in the catalogue sells H1000; did you mean H100",
        ),
        ("%%provision\nresources: {cpus: 2, infra: awz}", "awz", "no cloud is called 'awz'"),
        (
            "%%provision\nresources:\n  infra: aws/us-esat-1\n  accelerators: A100",
            "us-esat-1",
            "aws has no place 'us-esat-1'; did you mean us-east-1",
        ),
        (
            "%%provision\nresources:\n  instance_type: p99.huge",
            "p99.huge",
            "the catalogue has no instance type 'p99.huge'",
        ),
        (
            "%%provision\nresources: {accelerators: $card}",
            "$card",
            "resources.accelerators: there is no notebook variable `card`",
        ),
        (
            "%%provision\nresources:\n  accelerators: $gpu\n  infra: $wrong",
            "accelerators: $gpu",  # where the request begins
            "no cloud is called 'awz'",
        ),
        ("  \n%%provision\nresources: {cpus: 2\u2028, infra: [}", "", ""),
        ("%%provision a --yess\nresources: {cpus: 2}", "a --yess", "%%provision: unrecognized"),
        ("%%nbprov plan --bad\nresources: {cpus: 2}", "--bad", "%nbprov plan: unrecognized"),
        ("%%provision\nresources: {accelerators: [A100", "", "a `,` or a closing bracket"),
    ],
)
def test_a_problem_stands_at_its_word(source: str, word: str, said: str) -> None:
    ((found, words),) = marked(source)
    assert found == word
    assert words.startswith(said)


@pytest.mark.parametrize(
    "source",
    [
        "%%provision dev\nresources:\n  accelerators: $gpu\n  infra: [aws, gcp/europe-west4]",
        "%%provision dev\nresources: {infra: local/somewhere, accelerators: H1000}",
        "%%provision --ignore colour\nresources: {cpus: 2}\ncolour: red",
        "%%provision\nresources: {accelerators: ${frame.gpu}, cpus: $frame}",
        "%%provision dev --help\nresources: {cpus: 2}",
        "%%nbprov plan\nresources: {accelerators: A100}",
        "%%provision",
        "%%provision\n\n  \n",
        "resources: {acelerators: A100}",
        "%%provisional\nacelerators",
        "%%provision\n" + "x" * LONGEST_CELL,
    ],
)
def test_nothing_is_said_of_what_is_right_or_no_spec(source: str) -> None:
    assert marked(source) == []


def test_no_cell_of_the_examples_has_a_problem() -> None:
    import nbformat

    cells = [
        cell.source
        for file in EXAMPLES
        for cell in nbformat.read(file, as_version=4).cells
        if re.match(r"%%(provision|nbprov plan)\s", cell.source)
    ]
    assert len(cells) > len(EXAMPLES) // 2
    variables = {"gpus": "A100", "hours": 2}
    assert [problems_in(cell, variables) for cell in cells] == [[]] * len(cells)
