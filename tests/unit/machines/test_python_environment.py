"""What nodes say of their Python: read with care, compared, and a difference named."""

from __future__ import annotations

import json

import pytest

from nbprov.machines.python_environment import Made, PythonDiffers, check_same, job_script, same_words
from nbprov.machines.python_files import PythonSource


def _record(**changes: object) -> str:
    record = {"key": "k", "python": "3.12.4", "implementation": "cpython", "lock": "six==1\n", "packages": {"six": "1.16.0", "pip": "26.3"}}
    return json.dumps({**record, **changes})


def test_equal_nodes_are_said_in_a_line() -> None:
    made = [Made.of(node, _record()) for node in range(3)]
    check_same(made)
    assert same_words(made) == "python: 3.12.4 with 2 packages, the same on 3 nodes"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.12.5"}, "node 1 has cpython 3.12.5, the head cpython 3.12.4"),
        ({"packages": {"six": "1.17.0", "pip": "26.3"}}, "node 1 has other packages than the head: six 1.17.0 instead of 1.16.0"),
        ({"packages": {"six": "1.16.0"}}, "pip missing instead of 26.3"),
        ({"packages": {"six": "1.16.0", "pip": "26.3", "x": "1"}}, "x 1 instead of none"),
        ({"packages": {f"p{n}": "1" for n in range(9)}}, "and 6 more"),
    ],
)
def test_a_difference_is_an_error_that_names_it(changes: dict[str, object], words: str) -> None:
    with pytest.raises(PythonDiffers) as caught:
        check_same([Made.of(0, _record()), Made.of(1, _record(**changes))])
    assert words in caught.value.message
    assert caught.value.code == "python.differs"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        _record(packages=[]),
        _record(packages={"six": 1}),
        _record(python=None),
        _record(python="3.12\x1b[2J"),
        _record(packages={"six\n": "1"}),
        _record(packages={"six": "1" * 500}),
        _record(lock=5),
    ],
)
def test_what_is_no_record_is_not_believed(text: str) -> None:
    with pytest.raises(PythonDiffers) as caught:
        Made.of(2, text)
    assert caught.value.code == "python.no-record"
    assert "\x1b" not in caught.value.message


def test_the_job_is_one_text_that_holds_the_request_as_data() -> None:
    source = PythonSource("requirements", "3.12", {"requirements.in": "six\nNBPROV_END_OF_PROGRAM\n'\"\\$HOME `id`\n"})
    script = job_script(source.request(lock="a==1\n", python="3.12.4"))
    lines = script.splitlines()
    assert [n for n, line in enumerate(lines) if line == "NBPROV_END_OF_PROGRAM"] == [len(lines) - 1]
    compile("\n".join(lines[1:-1]), "job", "exec")
