"""Any text gives a spec, or a `SpecError` that renders with places, within a bound on work."""

from __future__ import annotations

import cProfile
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec
from nbprov.spec import SpecError, fields, parse, to_yaml
from nbprov.spec.schema.field import Section
from nbprov.spec.yaml.diagnostics import MOST_SHOWN
from nbprov.spec.yaml.reader import MAX_BYTES

CORPUS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "corpus").glob("*.yaml"))
}
CANARY = "c4n4ry-value"
VARIABLES: dict[str, object] = {
    "gpus": ["L4:1", "T4:1"],
    "region": "us-east-1",
    "nodes": 2,
    "lr": 0.1,
    "token": CANARY,
    "nothing": None,
    "yes": True,
    "evil": "a: [b, {c\n# $region $$",
    "cfg": {"a": [1, {"b": "x"}], 8080: "public"},
    "odd": object(),
    "loop": [],
}
VARIABLES["loop"].append(VARIABLES["loop"])  # type: ignore[attr-defined]

# Calls of functions that reading may make, C functions included: a base, and so many per letter.
BASE_CALLS = 20_000
CALLS_PER_LETTER = 100

IS_FUZZ = settings().max_examples == settings.get_profile("fuzz").max_examples
EXAMPLES = int(os.environ.get("NBPROV_TEST_FUZZ", 100_000 if IS_FUZZ else 1_000))
SHARES = {"corpus": 0.5, "tree": 0.25, "names": 0.15, "text": 0.1}
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

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
    " # ",
    "'",
    '"',
    "|",
    ">",
    "&a ",
    "*a",
    "*common",
    "<<: ",
    "!x ",
    "!!str ",
]
PIECES += [
    "\t",
    "\n",
    "\n  ",
    "\n- ",
    "? ",
    "~",
    "---\n",
    "\r\n",
    "\u2028",
    "\ufeff",
    "%YAML 1.1\n",
    "\\",
    "$$",
    "$",
    "${",
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
    "s3://b",
    "é",
    "\x00",
    "\x07",
    "9" * 60,
    "*",
    "/",
]
VALUES += [
    "{}",
    "[]",
    "20%",
    "101%",
    "$5",
    "4h",
    "0s",
    "dask",
    "public",
    ":8000/ok",
    "https://x.y/z",
    "[a, b]",
    "{a: b}",
    "{for: 1h}",
    "''",
]
VALUES += [
    "$gpus",
    "$region",
    "$nodes",
    "$token",
    "$nothing",
    "$yes",
    "$evil",
    "$odd",
    "$loop",
    "$unknown",
    "aws/$region",
    "$cfg",
]
VALUES += [
    "\"${cfg['a'][1]['b']}\"",
    '"${gpus[9]}"',
    '"${region.upper()}"',
    '"${}"',
    "Flex$_2_16",
    "{allow: [us-*]}",
    "{8080: public}",
]


class Meter:
    """Counts the function calls during a piece of work."""

    def __init__(self) -> None:
        self.calls = 0
        self._profiler = cProfile.Profile()

    def __enter__(self) -> Meter:
        self._profiler.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profiler.disable()
        self.calls = sum(entry.callcount for entry in self._profiler.getstats())


def outcome(text: str, variables: dict[str, object] | None) -> Spec | SpecError:
    try:
        return parse(text, variables=variables)
    except SpecError as error:
        return error


def measured(text: str, variables: dict[str, object] | None) -> Spec | SpecError:
    with Meter() as meter:
        found = outcome(text, variables)
    allowed = BASE_CALLS + CALLS_PER_LETTER * len(text)
    assert meter.calls <= allowed, f"{meter.calls} calls for {len(text)} letters"
    return found


def asked(spec: Spec) -> object:
    """What a spec asks for, wherever it was written; values of several lines are stored on one."""
    nowhere = Origin("")
    return (
        [replace(r, origin=nowhere) for r in spec.requests],
        spec.envs,
        spec.guards,
        spec.num_nodes,
        spec.name,
        spec.race,
        spec.health,
    )


def check(text: str, variables: dict[str, object] | None = None) -> None:
    spec = measured(text, variables)
    if isinstance(spec, SpecError):
        lines = (
            text.count("\n")
            + text.count("\r")
            + text.count("\x85")
            + text.count("\u2028")
            + text.count("\u2029")
            + 2
        )
        assert spec.problems
        assert all(
            1 <= p.line <= lines and p.column >= 1 and p.message and p.code.startswith("spec.")
            for p in spec.problems
        )
        assert len(spec.render()) <= 2 + 4 * MOST_SHOWN
        return
    assert spec.requests
    in_clear = repr(
        (
            spec.envs,
            spec.run,
            spec.setup,
            spec.name,
            spec.requests,
            spec.file_mounts,
            spec.workdir,
            spec.variables,
        )
    )
    if CANARY not in in_clear and variables is not None and "secrets" in text:
        assert CANARY not in spec.source
    again = parse(spec.source)
    assert asked(again) == asked(spec)
    assert [str(r) for r in parse(to_yaml(spec)).requests] == [str(r) for r in spec.requests]


def share(name: str) -> settings:
    """The settings of one test here: its share of all examples."""
    return settings(_SETTINGS, max_examples=int(EXAMPLES * SHARES[name]))


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    """A real file with a few values, lines and letters changed."""
    text = CORPUS[draw(st.sampled_from(sorted(CORPUS)))]
    for _ in range(draw(st.integers(0, 3))):
        lines = text.split("\n")
        number = draw(st.integers(0, len(lines) - 1))
        how = draw(st.integers(0, 3))
        head, colon, _value = lines[number].partition(": ")
        if how == 0:
            lines[number] = lines[number] * draw(st.integers(0, 1))
        elif how == 1:
            other = CORPUS[draw(st.sampled_from(sorted(CORPUS)))].split("\n")
            lines.insert(number, draw(st.sampled_from(other)))
        elif how == 2:
            lines[number] = lines[number].replace(
                draw(st.sampled_from(" :-{}[],")), draw(st.sampled_from(PIECES)), 1
            )
        elif colon:
            lines[number] = f"{head}: {draw(st.sampled_from(VALUES))}"
        text = "\n".join(lines)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 2, 5, 20]))
        text = text[:at] + draw(st.sampled_from([*PIECES, *VALUES, ""])) + text[at + length :]
    return text


_names = st.sampled_from(
    [f.name for where in Section for f in fields(where)]
    + ["<<", "gpus", "accelerator", "x", "_y", "$region"]
)
_scalars = st.one_of(
    st.sampled_from(VALUES), st.text(max_size=8), st.integers().map(str), st.floats().map(str)
)
_trees = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=4)
    ),
    max_leaves=12,
)
_variables = st.sampled_from([None, {}, VARIABLES, VARIABLES])


def _flow(tree: object) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {_flow(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_flow(item) for item in tree) + "]"
    return str(tree)


@st.composite
def _fitting(draw: st.DrawFn) -> str:
    """Fields where they belong, with any value."""
    where = draw(st.sampled_from([w for w in Section if w is not Section.NBPROV]))
    names = draw(
        st.lists(st.sampled_from([f.name for f in fields(where)]), max_size=4, unique=True)
    )
    body = (
        "{"
        + ", ".join(f"{name}: {_flow(draw(st.one_of(_scalars, _trees)))}" for name in names)
        + "}"
    )
    for part in reversed(where.value.split(".") if where.value else []):
        name = part.removesuffix("[]")
        body = f"{{{name}: [{body}]}}" if part.endswith("[]") else f"{{{name}: {body}}}"
    return body


@given(_mutated(), _variables)
@share("corpus")
def test_mutated_files(text: str, variables: dict[str, object] | None) -> None:
    check(text, variables)


@given(_fitting(), _variables)
@share("tree")
def test_any_value_of_any_field(text: str, variables: dict[str, object] | None) -> None:
    check(text, variables)


@given(
    st.dictionaries(_names, _trees, max_size=4),
    st.sampled_from(["{}", "resources: {}", "resources: {{any_of: [{}]}}"]),
    _variables,
)
@share("names")
def test_any_tree_of_known_names(
    tree: dict[str, object], frame: str, variables: dict[str, object] | None
) -> None:
    check(frame.format(_flow(tree)), variables)


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from([*PIECES, *VALUES, "resources", "run"]), max_size=25).map("".join),
    ),
    _variables,
)
@example("secrets: {a: &b $token, c: *b}", VARIABLES)
@share("text")
def test_any_text(text: str, variables: dict[str, object] | None) -> None:
    check(text, variables)


def _bomb(width: int, depth: int) -> str:
    lines = [f"_0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"_{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(lines)


def _many(line: str, size: int = 6_000) -> str:
    return "".join(line.format(n=n) for n in range(size // len(line)))


BIG = {
    "nested anchors": _bomb(10, 9),
    "wide anchors": "_b: &b [" + "x, " * 90 + "x]\n_c: [" + "*b, " * 3000 + "*b]",
    "merged anchors": "_a: &a0 {k0: 1}\n"
    + "\n".join(f"_a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, 400)),
    "long anchored text with a variable": (
        f'_a: &a "{"y" * 5_000}$region"\nresources: {{labels: '
        f"{{{', '.join(f'l{n}: *a' for n in range(2000))}}}}}"
    ),
    "unknown keys": _many("zz{n}: 1\n"),
    "unknown nested keys": "resources:\n" + _many("  zz{n}: 1\n"),
    "repeated keys": _many("run: x{n}\n"),
    "keys that are maps": _many("{{}}: {n}\n"),
    "keys that are lists": "x:\n" + _many("  ? [a{n}]\n  : b\n"),
    "one long key": "? " + "k" * 15_000 + "\n: x\n",
    "one long line": "run: " + "a" * 15_000,
    "secrets and comments": "secrets:\n" + _many("  S{n}: value-{n} # value-{n}\n"),
    "secrets and envs": "secrets:\n"
    + _many("  S{n}: value-{n}\n", 5_000)
    + "envs:\n"
    + _many("  E{n}: text-{n}\n", 5_000),
    "unknown variables": "envs:\n" + _many("  E{n}: $gone{n}\n"),
    "variables": "envs:\n" + _many("  E{n}: $region$nodes\n", 10_000),
    "alternatives": "resources: {any_of: [" + "{infra: [aws, gcp]}, " * 350 + "]}",
    "accelerators": "resources: {accelerators: {"
    + ", ".join(f"G{n}: 1" for n in range(1000))
    + "}}",
    "ports": "resources: {ports: ["
    + ", ".join(str(n % 60_000 + 1) for n in range(0, 4_000, 2))
    + "]}",
    "brackets": "[" * 8_000,
    "dashes": "- " * 8_000,
    "braces in pairs": "{}" * 8_000,
    "question marks": "? " * 8_000,
    "quotes": "run: " + "'" * 15_001,
    "tabs": "resources:\n" + "\t" * 15_000 + "x",
    "tags": "run: " + "!x " * 5_000,
    "documents": "---\nrun: x\n" * 700,
    "empty documents": "---\n" * 2_000,
    "comments": "# x\n" * 4_000 + "run: x",
    "dollars": "name: " + "$" * 15_000,
    "open braces of variables": "name: '" + "${" * 8_000 + "'",
    "steps of a variable": "name: '${region" + ".x" * 8_000 + "}'",
    "mounts": "file_mounts:\n" + _many("  /d{n}: $E/x$region\n", 5_000),
    "hooks": "config: {hooks: [" + "{run: x}, " * 600 + "]}",
    "docker options": "config: {docker: {run_options: [" + "'--a=b', " * 800 + "]}}",
    "outputs": "outputs: [" + ", ".join(f"o{n}" for n in range(1200)) + "]",
    "exposed ports": "resources: {ports: 1-65535}\nexpose: {"
    + ", ".join(f"{n}: public" for n in range(1, 600))
    + "}",
    "as large as it may be": "# " + "x" * (MAX_BYTES - 10) + "\nrun: a",
    "larger": "x" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("name", BIG)
def test_large_cells_take_work_in_proportion(name: str) -> None:
    found = measured(BIG[name], VARIABLES)
    assert isinstance(found, Spec) or all(p.line >= 1 and p.message for p in found.problems)


@pytest.mark.parametrize("name", CORPUS)
def test_files_are_read_as_they_say(name: str) -> None:
    first, _, _ = CORPUS[name].partition("\n")
    found = outcome(CORPUS[name], VARIABLES)
    said = "ok" if isinstance(found, Spec) else ",".join(p.code for p in found.problems)
    assert f"# read as: {said}" == first
    check(CORPUS[name], VARIABLES)
