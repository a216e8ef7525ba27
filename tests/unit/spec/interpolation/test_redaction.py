"""No secret value is shown or stored: not in the source, a repr, an error or a remark."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from nbprov.model.remarks import Severity
from nbprov.model.secret import Secret
from nbprov.model.spec import Spec
from nbprov.spec import SpecError, parse, to_yaml

CANARY = "c4n4ry-0fD3ath"

GOOD = [
    "secrets: {{TOKEN: {0}}}",
    'secrets:\n  TOKEN: "{0}"   # was {0}\n  NEXT: null\nrun: x\n',
    "secrets:\n  TOKEN: |\n    {0}\n    second {0}\n  NEXT: null\n",
    "secrets:\n  TOKEN: >-\n    {0}\nrun: x",
    'secrets: {{"TOKEN":"{0}","OTHER":\'{0}\'}}',
    "secrets:\n  A: &a {0}\n  B: *a\n",
    "secrets: {{TOKEN: !!str {0}}}",
    "secrets:\n  TOKEN: {0}\n    continued {0}\nrun: y",
    "_auth: {{login: [me, {0}]}}\nrun: x",
    "name: x\n---\nsecrets: {{T: {0}}}\nrun: z\n",
    "secrets:\n  TOKEN: {0}\xa0\nrun: y",
    "resources: {{_docker_login_config: {{password: {0}}}, any_of: [{{_x: {0}}}]}}",
]

BAD = [
    "secrets: {{TOKEN: {0}}}\nnum_nodes: 0",
    "secrets: {0}",
    "secrets: [{0}]",
    "secrets: {{TOKEN: [{0}]}}",
    "secrets: {{TOKEN: {{a: {0}}}}}",
    "secerts: {{TOKEN: {0}}}",
    "secret: {{TOKEN: {0}}}",
    "resources: {{secrets: {{T: {0}}}}}",
    "secrets: {{T: {0}}}\nsecrets: {{T: {0}}}",
    "secrets: {{T: {0}, T: {0}}}",
    "secrets: {{bad-name: {0}}}",
    "secrets: {{T: {0}: x}}",
    "secrets:\n  T: {0}\n\tU: x",
    "secrets:\n  T: [{0}\nrun: x",
    "secrets:\n  T: *{0}",
    "secrets: {{T: '{0}}}",
    "secrets: {{T: {0}}}\nname: {0}!",
    "secrets: {{T: {0}}}\nresources: {{accelerators: '{0}:x'}}",
    "envs: {{A: &a {0}}}\nsecrets: {{B: *a}}",
    "envs: {{secrets: {{T: {0}}}}}",
    "- secrets: {{T: {0}}}",
    "managed_secrets: ['{0}']",
    "secrets: {{{{T: {0}}}}}",
    '{{"secrets": {{"T": "{0}"}}, "x": [}}',
    "wait: {{notify: htps://x.y/{0}}}",
    "wait:\n  notify: https://x.y/{0}\n\tfor: 4h",
    "num_nodes: 0\nwait: {{notify: https://x.y/{0}}} # {0}",
    "nbprov: {{wait: {{notify: &u https://x.y/{0}}}}}\nenvs: {{A: *u}}",
]


@pytest.mark.parametrize("template", GOOD)
def test_values_are_kept_and_never_shown(template: str) -> None:
    spec = parse(template.format(CANARY))
    for shown in (spec.source, repr(spec), str(spec.remarks), to_yaml(spec)):
        assert CANARY not in shown
    again = parse(spec.source)
    assert dict.fromkeys(spec.secrets) == dict(again.secrets)
    assert (again.name, again.run, again.requests) == (spec.name, spec.run, spec.requests)
    if "TOKEN" in spec.secrets:
        secret = spec.secrets["TOKEN"]
        assert secret is not None
        assert CANARY in secret.reveal()


@pytest.mark.parametrize("template", BAD)
def test_errors_do_not_show_values(template: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(template.format(CANARY))
    error = caught.value
    shown = [
        str(error),
        repr(error),
        repr(error.problems),
        "".join(traceback.format_exception(error)),
    ]
    assert all(CANARY not in text for text in shown)


def test_the_caret_still_points_at_the_problem() -> None:
    with pytest.raises(SpecError) as caught:
        parse(f"{{secrets: {{T: {CANARY}}}, num_nodes: 0}}")
    (problem,) = caught.value.problems
    assert problem.excerpt == "{secrets: {T: ***}, num_nodes: 0}"
    assert problem.excerpt[problem.caret] == "0"


def test_a_copy_in_the_clear_is_warned_of() -> None:
    spec = parse(f"secrets: {{T: {CANARY}}}\nrun: curl -H {CANARY}")
    assert "spec.secret-copied" in [r.code for r in spec.remarks]


def test_a_webhooks_address_is_not_stored() -> None:
    url = f"https://hooks.example.com/{CANARY}"
    for text in (
        f"wait: {{for: 4h, notify: {url}}} # {url}",
        f"nbprov:\n  wait:\n    notify: '{url}'\n    for: 4h\n",
    ):
        spec = parse(text)
        assert spec.wait.webhook == url
        assert [(r.level, r.code) for r in spec.remarks] == [(Severity.WARNING, "spec.webhook")]
        assert CANARY not in spec.source + repr(spec) + to_yaml(spec)
        again = parse(spec.source)
        assert (again.wait.seconds, again.wait.notify, again.wait.webhook) == (14400.0, True, "")
    assert parse("wait: {notify: yes}").remarks == ()


def test_user_text_is_not_taken_for_a_secret() -> None:
    text = (
        "envs: {_X: abcdef, MY_SECRET_LEVEL: high}\nresources: {labels: {_a: bcde}}\nrun: x # "
        "abcdef\n"
    )
    assert parse(text).source == text


def test_values_of_other_scripts_and_short_ones() -> None:
    spec = parse("secrets: {A: '1', B: ' ', C: '', D: пароль123}\nrun: echo 1  # пароль123\n")
    assert spec.secrets == {
        "A": Secret("1"),
        "B": Secret(" "),
        "C": Secret(""),
        "D": Secret("пароль123"),
    }
    assert spec.source == "secrets: {A: null, B: null, C: '', D: null}\nrun: echo 1  # ***\n"


def outcome(text: str) -> Spec | SpecError:
    try:
        return parse(text)
    except SpecError as error:
        return error


_values = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)


@given(
    before=_values,
    after=_values,
    style=st.sampled_from(["plain", "single", "double", "block"]),
    broken=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_canary_is_ever_shown(before: str, after: str, style: str, broken: bool) -> None:
    value = before + CANARY + after
    written = {
        "plain": value,
        "single": "'" + value.replace("'", "''") + "'",
        "double": '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"',
        "block": "|\n    " + value,
    }[style]
    text = f"name: x\nsecrets:\n  FIRST: null\n  TOKEN: {written}\n  LAST: null\nrun: y\n" + (
        "num_nodes: 0\n" if broken else ""
    )
    spec = outcome(text)
    if isinstance(spec, SpecError):
        event("refused")
        assert CANARY not in str(spec) + repr(spec.problems)
        return
    uncommented = spec.secrets["TOKEN"]
    if uncommented is not None and CANARY in uncommented.reveal():
        event("kept")
        assert CANARY not in spec.source + repr(spec)
        assert parse(spec.source).secrets == {"FIRST": None, "TOKEN": None, "LAST": None}
