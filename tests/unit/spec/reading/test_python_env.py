"""`python` and `on_setup_failure`: every form, every mistake with its place, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.model.spec import PythonEnvironment, Spec
from nbprov.spec import SpecError, keys_at, parse, to_skypilot, to_yaml
from nbprov.spec.reading.python_env import python_version
from nbprov.spec.yaml.diagnostics import InvalidValue


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"3.12"', PythonEnvironment("3.12")),
        ("3.10", PythonEnvironment("3.10")),
        ("3.12.4", PythonEnvironment("3.12.4")),
        ("Python 3.9", PythonEnvironment("3.9")),
        ("requirements.txt", PythonEnvironment(file="requirements.txt")),
        ("deps/base.in", PythonEnvironment(file="deps/base.in")),
        ("pyproject.toml", PythonEnvironment(file="pyproject.toml")),
        ("uv.lock", PythonEnvironment(lock="uv.lock")),
        ("../project/uv.lock", PythonEnvironment(lock="../project/uv.lock")),
        ('[numpy, "pandas>=2"]', PythonEnvironment(requirements=("numpy", "pandas>=2"))),
        (
            "{version: 3.11, requirements: [six==1.16.0]}",
            PythonEnvironment("3.11", ("six==1.16.0",)),
        ),
        ("{version: 3.11, requirements: r.txt}", PythonEnvironment("3.11", file="r.txt")),
        ("{lock: project}", PythonEnvironment(lock="project")),
        ("{lock: ., version: 3.12}", PythonEnvironment("3.12", lock=".")),
        ('["torch[cuda] >= 2 ; sys_platform == \'linux\'", "x @ https://host/x.whl"]', None),
        ("false", None),
        ("null", None),
    ],
)
def test_forms(text: str, expected: PythonEnvironment | None) -> None:
    found = parse(f"python: {text}").python
    if expected is not None or text in ("false", "null"):
        assert found == expected
    else:
        assert found is not None
        assert found.requirements == (
            "torch[cuda] >= 2 ; sys_platform == 'linux'",
            "x @ https://host/x.whl",
        )
    assert parse(f"nbprov: {{python: {text}}}").python == found


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "numpy",
            "`numpy` is neither a version nor a file of requirements",
            "write python: [numpy]",
        ),
        ("3.1", "Python 3.1 is older than 3.8", 'did you mean "3.10"?'),
        ("2.7", "`2.7` is not a version of Python 3", '"3.12"'),
        ("3", "`3` is not a version of Python 3", '"3.12"'),
        ("true", "must be a version, a file or a map, not `true`", "3.12"),
        ("{}", "python says nothing", "requirements.txt"),
        ("[]", "python lists 0 requirements", "numpy"),
        ("{versoin: 3.12}", "unknown field `versoin` under `python`", "did you mean `version`?"),
        ("{requirements: [a], lock: b}", "cannot be given together", "keep one of them"),
        ("{requirements: numpy}", "`numpy` is not a file of requirements", "[numpy]"),
        ("{requirements: uv.lock}", "`uv.lock` is a lock", "lock: uv.lock"),
        ("{lock: poetry.lock}", "`poetry.lock` is not a uv.lock", "uv.lock"),
        ("{requirements: https://host/r.txt}", "is a URI", "requirements.txt"),
        ("[-e .]", "`-e .` is not a requirement", "options of pip stand in a file"),
        ("[./pkg]", "`./pkg` is not a requirement", "installed by setup"),
        ("[git+https://host/x]", "is not a requirement", "name @ URL"),
        ("[1.5]", "`1.5` is not a requirement", "pandas>=2"),
        ("[null]", "nothing is not a requirement", "pandas>=2"),
        ("{lock: [a]}", "must name a file here, not a list", "uv.lock"),
    ],
)
def test_mistakes_have_a_place_and_a_way_out(text: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(f"name: x\npython: {text}")
    problem = caught.value.problems[0]
    assert message in problem.message
    assert hint in problem.hint
    assert problem.line == 2
    assert problem.path.startswith("python")


def test_a_password_in_a_url_is_warned_of() -> None:
    told = [r.message for r in parse('python: ["x @ https://me:secret@host/x.whl"]').remarks]
    assert told == [
        "python[0]: the password in this URL is saved in the notebook; a variable of uv under "
        "`secrets` is not"
    ]


def test_on_setup_failure() -> None:
    assert parse("setup: x").on_setup_failure == "keep"
    assert parse("on_setup_failure: DOWN").on_setup_failure == "down"
    with pytest.raises(SpecError, match="none of keep, down"):
        parse("on_setup_failure: dwon")


def test_what_skypilot_does_not_have_is_named() -> None:
    lost = to_skypilot(parse("python: 3.12\non_setup_failure: down")).lost
    assert any(line.startswith("python: ") for line in lost)
    assert any(line.startswith("on_setup_failure: ") for line in lost)
    assert "python" not in to_skypilot(parse("python: 3.12")).text


def test_completion_knows_the_fields() -> None:
    assert [field.name for field in keys_at("python:\n  ", 2, 3).keys] == [
        "version",
        "requirements",
        "lock",
    ]
    assert keys_at("on_setup_failure: ", 1, 19).values == ("keep", "down")


_versions = st.builds(
    lambda a, b: f"3.{a}" + (f".{b}" if b is not None else ""),
    st.integers(8, 30),
    st.none() | st.integers(0, 40),
)
_requirements = st.lists(
    st.builds(
        "{}{}".format,
        st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True),
        st.sampled_from(
            ["", "==1.0", ">=2,<3", "[a,b]~=1.2", " @ https://h/x.whl", " ; python_version < '3.9'"]
        ),
    ),
    min_size=1,
    max_size=5,
    unique=True,
).map(tuple)
_paths = st.sampled_from(["requirements.txt", "a b/r.in", "../pyproject.toml", "~/r.txt", "$x.txt"])
_environments = st.one_of(
    st.builds(PythonEnvironment, _versions),
    st.builds(PythonEnvironment, st.just("") | _versions, _requirements),
    st.builds(lambda v, f: PythonEnvironment(v, file=f), st.just("") | _versions, _paths),
    st.builds(
        lambda v, f: PythonEnvironment(v, lock=f),
        st.just("") | _versions,
        st.sampled_from([".", "uv.lock", "p/q", "$x"]),
    ),
)


@given(_environments, st.sampled_from(["keep", "down"]))
def test_the_way_to_yaml_and_back(python: PythonEnvironment, fate: str) -> None:
    text = to_yaml(Spec(python=python, on_setup_failure=fate))
    again = parse(text)
    assert (again.python, again.on_setup_failure) == (python, fate), text


@given(st.text(max_size=12))
def test_any_text_is_a_version_or_an_error(text: str) -> None:
    try:
        found = python_version(text)
    except InvalidValue:
        return
    assert found.startswith("3.")
