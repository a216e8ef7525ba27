"""Whatever the text, reading it gives a spec or a `SpecError` that renders; never anything else, and never slowly."""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from nbprov.model.spec import Spec
from nbprov.spec import SpecError, fields, parse, to_yaml
from nbprov.spec.fields import Where
from nbprov.spec.problems import MOST_SHOWN

CELL = """\
name: train
resources:
  accelerators: {A100: 8, "80GB+:4"}
  any_of:
  - infra: aws/us-east-1
    use_spot: prefer
  - &b {cloud: [gcp, runpod], region: [NO, CZ], labels: {a: b}}
  ports: [8080, 9000-9010]
  autostop: {idle_minutes: 10, down: true}
  max_price: $2.50
envs: {A: 010, B: null}
secrets:
  TOKEN: "c4n4ry"
file_mounts: {/data: ./data}
setup: |
  pip install x
run: >-
  python train.py
budget: {total: 20}
max_lifetime: 8h
"""
PIECES = [
    ":",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "'",
    '"',
    "|",
    ">",
    "&a ",
    "*a",
    "*b",
    "<<: ",
    "!x ",
    "\t",
    "\n",
    "\n  ",
    "? ",
    "~",
]
VALUES = [
    "null",
    "true",
    "NO",
    "-1",
    "0",
    "1e999",
    ".nan",
    "4+",
    "A100:x",
    "22:22",
    "$x",
    "s3://b",
    "é",
    "\x00",
    "9" * 60,
    "*",
    "/",
    "{}",
    "[]",
]


def outcome(text: str) -> Spec | SpecError:
    try:
        return parse(text)
    except SpecError as error:
        return error


def check(text: str) -> None:
    spec = outcome(text)
    if isinstance(spec, SpecError):
        assert spec.problems
        assert all(p.line >= 1 and p.column >= 1 and p.message and p.code.startswith("spec.") for p in spec.problems)
        assert len(spec.render()) <= 2 + 4 * MOST_SHOWN
        return
    event("accepted")
    assert spec.requests
    assert "c4n4ry" not in repr(spec) or "c4n4ry" in repr((spec.envs, spec.run, spec.setup, spec.name, spec.requests))
    assert [str(r) for r in parse(to_yaml(spec)).requests] == [str(r) for r in spec.requests]
    assert parse(spec.source).requests == spec.requests


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    text = CELL
    for _ in range(draw(st.integers(0, 3))):
        lines = text.split("\n")
        number = draw(st.integers(0, len(lines) - 1))
        head, colon, _value = lines[number].partition(": ")
        lines[number] = (
            f"{head}: {draw(st.sampled_from(VALUES))}" if colon and draw(st.booleans()) else lines[number] * draw(st.integers(0, 1))
        )
        text = "\n".join(lines)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 2, 5, 20]))
        text = text[:at] + draw(st.sampled_from([*PIECES, *VALUES, ""])) + text[at + length :]
    return text


_names = st.sampled_from([f.name for where in Where for f in fields(where)] + ["<<", "gpus", "accelerator", "x", "_y"])
_scalars = st.one_of(st.sampled_from(VALUES), st.text(max_size=8), st.integers().map(str), st.floats().map(str))
_trees = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=4)),
    max_leaves=12,
)


def _flow(tree: object) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {_flow(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_flow(item) for item in tree) + "]"
    return str(tree)


_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(_mutated())
@settings(_SETTINGS, max_examples=1000)
def test_mutated_cells(text: str) -> None:
    check(text)


@given(st.dictionaries(_names, _trees, max_size=4), st.sampled_from(["{}", "resources: {}", "resources: {{any_of: [{}]}}"]))
@settings(_SETTINGS, max_examples=700)
def test_any_tree_of_known_names(tree: dict[str, object], frame: str) -> None:
    check(frame.format(_flow(tree)))


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from([*PIECES, *VALUES, "resources", "run"]), max_size=25).map("".join)))
@settings(_SETTINGS, max_examples=300)
def test_any_text(text: str) -> None:
    check(text)
