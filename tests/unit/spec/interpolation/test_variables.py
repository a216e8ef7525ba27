"""Notebook variables in a cell: what they may be, and where they go.

Their values add no structure, and are not shown where they must not be.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.model.places import Market
from nbprov.model.remarks import Severity
from nbprov.model.secret import Secret
from nbprov.model.spec import Spec, Variable
from nbprov.spec import SpecError, fill_paths, parse, to_yaml

CANARY = "c4n4ry-0fD3ath"


class Kind(StrEnum):
    L4 = "L4:2"


class Thing:
    gpus = ("L4:1", "T4:1")
    count = 3

    @property
    def broken(self) -> int:
        raise ValueError(CANARY)


def filled(text: str, **variables: Any) -> Spec:
    spec = parse(text, variables=variables)
    again = parse(spec.source)
    assert [str(r) for r in again.requests] == [str(r) for r in spec.requests]
    for name in (
        "envs",
        "guards",
        "num_nodes",
        "name",
        "workdir",
        "outputs",
        "hooks",
        "health",
        "race",
    ):
        assert getattr(again, name) == getattr(spec, name), name
    assert parse(to_yaml(spec)).envs == spec.envs
    return spec


def refusal(text: str, **variables: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse(text, variables=variables)
    assert {p.code for p in caught.value.problems} == {"spec.variable"}
    return caught.value


def test_a_list_keeps_its_meaning() -> None:
    spec = filled(
        "resources: {accelerators: $gpus, infra: aws/$r}", gpus=["L4:1", "T4:1"], r="us-east-1"
    )
    assert [(r.tier, str(r)) for r in spec.requests] == [
        (0, "L4:1 @aws/us-east-1"),
        (1, "T4:1 @aws/us-east-1"),
    ]
    assert spec.variables == (
        Variable("gpus", "['L4:1', 'T4:1']", ("resources.accelerators",)),
        Variable("r", "us-east-1", ("resources.infra",)),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (3, "3"),
        (True, "true"),
        ("yes", "yes"),
        ("", ""),
        ("010", "010"),
        ("null", "null"),
        ("a: [b, {c\n# $r $$ '\"", "a: [b, {c\n# $r $$ '\""),
        ("🚀\u2028\x85", "🚀\u2028\x85"),
        (numpy.int64(7), "7"),
        (numpy.float32(0.5), "0.5"),
        (numpy.bool_(True), "true"),
        (numpy.str_("s"), "s"),
        (numpy.array(5), "5"),
        (pandas.Series([4]).iloc[0], "4"),
        (Kind.L4, "L4:2"),
        (1e300, "1e+300"),
    ],
)
def test_single_values_as_envs(value: object, text: str) -> None:
    assert filled("envs: {A: $x}", x=value).envs == {"A": text}


def test_none_is_null() -> None:
    assert filled("envs: {A: $x}\nresources: {infra: $x}", x=None).envs == {"A": None}


def test_types_are_kept() -> None:
    spec = filled(
        "num_nodes: $n\nresources: {use_spot: $spot, cpus: $c, autostop: $off}",
        n=2,
        spot=True,
        c=4,
        off=False,
    )
    assert (spec.num_nodes, spec.requests[0].market, str(spec.requests[0].cpus)) == (
        2,
        Market.SPOT,
        "4",
    )
    with pytest.raises(SpecError, match="whole number"):
        parse("num_nodes: $n", variables={"n": "2"})


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        b"x",
        numpy.arange(3),
        pandas.Series([1]),
        pandas.Timestamp(0),
        1j,
        print,
        [object()],
        {None: 1},
        {True: 1},
        10**100,
    ],
)
def test_other_types_are_refused_by_name(value: object) -> None:
    error = refusal("resources: {labels: {a: $x}}", x=value)
    assert "`x`" in error.problems[0].message


def test_a_list_inside_itself() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "nested" in str(refusal("resources: {region: $x}", x=loop))
    assert "larger" in str(refusal("resources: {region: $x}", x=["a"] * 30_000))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'${t.count}'", "3"),
        ("'${t.gpus[1]}'", "T4:1"),
        ("'${d[\"k\"][0]}'", "v"),
        ("\"${d['k'][-1]}\"", "v"),
        ("x-$n-y", "x-2-y"),
        ("'${n}${n}'", "22"),
        ("$$n", "$n"),
        ("$$$n", "$2"),
        ("5$", "5$"),
        ("$5", "$5"),
        ("Flex$_2_16", "Flex$_2_16"),
    ],
)
def test_expressions_and_dollars(written: str, text: str) -> None:
    assert filled(f"envs: {{A: {written}}}", t=Thing(), d={"k": ["v"]}, n=2).envs == {"A": text}


@pytest.mark.parametrize(
    "written",
    [
        "${}",
        "${1}",
        "${t.count()}",
        "${t.gone}",
        "${t.gpus[9]}",
        "${t.__class__}",
        "${t + 1}",
        "${t.broken}",
        "x-${t.gpus}",
        "x-${none}",
    ],
)
def test_bad_expressions(written: str) -> None:
    error = refusal(f"envs: {{A: '{written}'}}", t=Thing(), none=None)
    assert error.problems[0].hint
    assert CANARY not in str(error)


def test_unknown_names_are_named_with_the_closest() -> None:
    (problem,) = refusal("resources: {accelerators: $gpu}", gpus="L4").problems
    assert (problem.closest, problem.column) == ("gpus", 27)
    assert "$$" in problem.hint
    assert len(refusal("name: $a\nresources: {infra: $b, cpus: $c, labels: {x: $d}}").problems) == 4


def test_without_a_notebook() -> None:
    with pytest.raises(SpecError, match="without a notebook"):
        parse("resources: {accelerators: $gpus}")
    assert (
        parse("resources: {instance_type: VM.Standard.E4.Flex$_2_16}")
        .requests[0]
        .instance_type.endswith("$_2_16")
    )


def test_the_shell_keeps_its_dollars() -> None:
    text = (
        "run: echo $x ${x} $$\nsetup: echo $x\nhealth: test $x\nresources: "
        "{autostop: {hook: save $x}}\nconfig: {hooks: [{run: echo $x}]}\n"
    )
    spec = filled(text, x="VALUE")
    assert (spec.run, spec.setup, spec.health.command, spec.hooks[0].run) == (
        "echo $x ${x} $$",
        "echo $x",
        "test $x",
        "echo $x",
    )
    assert spec.guards.autostop is not None
    assert spec.guards.autostop.hook == "save $x"
    assert spec.variables == ()
    assert spec.source == text
    assert (
        filled("health: {command: test $x, every: $t}", x="VALUE", t="5s").health.command
        == "test $x"
    )


def test_in_paths_the_own_envs_come_first_and_unknown_names_stay() -> None:
    spec = filled(
        "envs: {OWN: 1}\nworkdir: ./$OWN/$x/$GONE\nfile_mounts: {/d/$x: $y/$$x}",
        x="$OWN",
        y="src",
        OWN="never",
    )
    done = fill_paths(spec, {"OWN": "1"})
    assert done.workdir == "./1/$OWN/$GONE"
    assert [(m.target, m.source) for m in done.file_mounts] == [("/d/$OWN", "src/$x")]


def test_a_dict_is_structure_on_purpose() -> None:
    resources = {
        "accelerators": "A100:8",
        "any_of": [{"infra": "aws"}, {"infra": "gcp", "use_spot": True}],
        "ports": [8080],
    }
    spec = filled("resources: $res", res=resources)
    assert [str(r) for r in spec.requests] == ["A100:8 @aws", "A100:8 spot @gcp"]
    assert filled("$cell", cell={"run": "echo $HOME", "envs": {"A": "$$x"}}).envs == {"A": "$$x"}


def test_keys_are_text() -> None:
    assert [str(r) for r in filled("resources: {accelerators: {$g: 2}}", g="L4").requests] == [
        "L4:2"
    ]
    refusal("resources: {accelerators: {$g: 2}}", g=["L4"])
    with pytest.raises(SpecError, match="twice"):
        parse("envs: {A: 1, $a: 2}", variables={"a": "A"})


@pytest.mark.parametrize("value", [CANARY, Secret(CANARY)])
@pytest.mark.parametrize(
    "text",
    ["secrets: {T: $tok}", "secrets: {T: 'x-$tok'}", "secrets: {T: '${box[0]}'}", "secrets: $all"],
)
def test_a_secret_is_never_shown(text: str, value: object) -> None:
    spec = parse(
        f"{text}\nrun: x # {CANARY}\n",
        variables={"tok": value, "box": [value], "all": {"T": CANARY}},
    )
    held = spec.secrets["T"]
    assert held is not None
    assert CANARY in held.reveal()
    assert [v.shown for v in spec.variables] == ["hidden"]
    assert spec.remarks == ()
    for shown in (spec.source, repr(spec), str(spec.variables), to_yaml(spec)):
        assert CANARY not in shown
    assert parse(spec.source).secrets == {"T": None}


def test_a_secret_outside_secrets_is_refused() -> None:
    with pytest.raises(SpecError, match="outside") as caught:
        parse("secrets: {T: $tok}\nenvs: {U: $tok}", variables={"tok": CANARY})
    assert CANARY not in str(caught.value)
    with pytest.raises(SpecError, match="Secret"):
        parse("envs: {U: $tok}", variables={"tok": Secret(CANARY)})


def test_a_literal_secret_with_a_dollar_is_not_repeated() -> None:
    error = refusal("secrets: {PW: $uper5ecret}")
    assert "uper5ecret" not in str(error) + repr(error.problems)
    assert parse("secrets: {PW: $$uper}", variables={}).secrets == {"PW": Secret("$uper")}


def test_what_looks_like_a_secret_is_not_shown() -> None:
    spec = parse("envs: {HF_TOKEN: $t}\nname: $api_key", variables={"t": CANARY, "api_key": "abc"})
    assert [v.shown for v in spec.variables] == ["hidden", "hidden"]
    assert "spec.looks-secret" in [r.code for r in spec.remarks]


def test_a_webhook_is_told_and_not_stored() -> None:
    url = f"https://hooks.example.com/{CANARY}"
    cells: list[tuple[str, dict[str, object]]] = [
        ("wait: {for: 4h, notify: $w}", {"w": url}),
        ("nbprov: {wait: $w}", {"w": {"for": "4h", "notify": url}}),
    ]
    for text, variables in cells:
        spec = parse(text, variables=variables)
        assert (spec.wait.seconds, spec.wait.notify, spec.wait.webhook) == (14400.0, True, url)
        assert [v.shown for v in spec.variables] == ["hidden"]
        assert CANARY not in spec.source + to_yaml(spec) + repr(spec)
        assert [(r.level, r.code) for r in spec.remarks] == [(Severity.NOTE, "spec.webhook")]
        assert parse(spec.source).wait.notify


def test_a_name_that_machines_have_or_another_env_stays_in_an_env() -> None:
    text = (
        "envs:\n  A: $HOME/x\n  B: ${SKYPILOT_NODE_RANK}\n  C: $A/$lr\n  D: $TOKEN\n  E: "
        "$PATH:$$PATH\nsecrets: {TOKEN: null}\n"
    )
    spec = filled(text, lr=0.1)
    assert spec.envs == {
        "A": "$HOME/x",
        "B": "${SKYPILOT_NODE_RANK}",
        "C": "$A/0.1",
        "D": "$TOKEN",
        "E": "$PATH:$PATH",
    }
    assert [(r.level, r.code, r.origin.path) for r in spec.remarks] == [
        (Severity.NOTE, "spec.dollar-kept", f"envs.{n}") for n in "ABCDE"
    ]
    assert parse(text.replace("$lr", "")).envs["A"] == "$HOME/x"
    assert filled("envs: {A: $HOME/x}", HOME="/me").envs == {"A": "/me/x"}


def test_elsewhere_such_a_name_is_an_error_that_shows_the_way_out() -> None:
    (problem,) = refusal("resources: {labels: {a: $HOME}}").problems
    assert "`$$HOME`" in problem.hint
    (problem,) = refusal("envs: {A: $HOMES, B: 1}", homes=1).problems
    assert (problem.closest, "`$$HOMES`" in problem.hint) == ("homes", True)
    refusal("envs: {A: '${HOME.x}'}")


def test_anchors_are_written_out() -> None:
    spec = filled(
        "_b: &b {region: $r, cloud: aws}\nresources: {<<: *b}\nrun: &c echo $r\nenvs: {A: *c}",
        r="us-east-1",
    )
    assert [str(r) for r in spec.requests] == ["@aws/us-east-1"]
    assert (spec.run, spec.envs) == ("echo $r", {"A": "echo us-east-1"})


def test_unused_fields_are_left_alone() -> None:
    assert (
        filled(
            "config: {kubernetes: {pod_config: {command: [echo, $X]}}}\npool: {workers: $N}"
        ).variables
        == ()
    )


def test_the_place_of_an_error_is_the_variables() -> None:
    with pytest.raises(SpecError) as caught:
        parse("resources:\n  cpus: $c\n", variables={"c": "many"})
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.excerpt) == (2, 9, "  cpus: $c")
    assert "many" in problem.message


_plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(), st.text(max_size=12)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
@settings(max_examples=300, deadline=None)
def test_text_stays_text(value: str) -> None:
    spec = parse("envs: {A: $x, B: 'x${x}y'}", variables={"x": value})
    assert spec.envs == {"A": value, "B": f"x{value}y"}
    assert parse(spec.source).envs == spec.envs
    assert len(spec.requests) == 1


@given(
    _plain,
    st.sampled_from(
        [
            "resources: $x",
            "$x",
            "resources: {labels: $x}",
            "wait: $x",
            "outputs: $x",
            "config: $x",
            "health: {every: $x}",
        ]
    ),
)
@settings(max_examples=300, deadline=None)
def test_any_value_gives_a_spec_or_an_error(value: object, text: str) -> None:
    try:
        spec = parse(text, variables={"x": value})
    except SpecError as error:
        found: Spec | SpecError = error
    else:
        found = parse(spec.source)
    assert isinstance(found, Spec) or all(p.line == 1 for p in found.problems)
