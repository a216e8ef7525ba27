"""`%nbprov check` as a table: which clouds are usable, as whom, why not, and the next step;
nothing is cut off."""

from __future__ import annotations

import re
from html import escape

import pytest

from nbprov.model.failures import RULES, Cause, Failure
from nbprov.model.launches import CheckResult
from nbprov.notebook.commands.check import NEXT, check_table, next_step

LONG = (
    "the account 123456789012 may not call ec2:RunInstances: ask for it, and for "
    "ec2:DescribeInstances, ec2:CreateTags and ec2:TerminateInstances"
)
RESULTS = (
    CheckResult(
        "aws",
        True,
        "123456789012",
        "profile dev (…WXYZ)",
        details=("quota: 64 vCPUs of standard machines", "balance: $3.14"),
    ),
    CheckResult(
        "gcp", False, "my-project", "service account (…@…)", Failure(Cause.PERMISSION, LONG)
    ),
    CheckResult("runpod", False),
)


def test_one_row_a_cloud_with_all_there_is_to_say() -> None:
    sheet = check_table(RESULTS, ("azure", "vast"))
    text = sheet.text()
    lines = text.splitlines()
    assert lines[0] == "1 of 3 clouds can be used"
    assert lines[1].split() == ["cloud", "usable", "credentials", "account"]
    assert re.match(r"aws +● yes +profile dev \(…WXYZ\) +123456789012$", lines[3])
    assert re.match(r"gcp +✕ no +", lines[4])
    assert f"gcp: permission missing: {LONG}" in lines, "a message that is cut helps nobody"
    assert f"next for gcp: {RULES[Cause.PERMISSION].advice}" in lines
    assert "aws: balance: $3.14" in lines
    assert "runpod: not set up" in lines
    assert lines[-1] == "prices are known, but nothing can be launched there yet: azure, vast"


def test_the_html_says_the_same_in_its_cells() -> None:
    html = check_table(RESULTS, ("azure",)).html()
    for said in (
        "● yes",
        f"✕ permission missing: {LONG}",
        "my-project",
        RULES[Cause.PERMISSION].advice,
        "nothing can be launched there yet: azure",
    ):
        assert escape(said) in html
    assert html.count("<tr>") == 1 + len(RESULTS)


def test_a_step_that_several_clouds_need_is_said_once() -> None:
    missing = Failure(Cause.CREDENTIALS, "no key is set")
    results = [CheckResult(name, False, problem=missing) for name in ("aws", "gcp")]
    sheet = check_table([*results, CheckResult("runpod", False)])
    for form in (sheet.text(), sheet.html()):
        assert form.count("provide working credentials") == 1
        assert f"next for aws, gcp: {NEXT[Cause.CREDENTIALS]}" in form
        assert "next for runpod: provide credentials" in form


def test_what_a_cloud_says_is_only_text() -> None:
    sheet = check_table(
        [CheckResult("x", False, problem=Failure(Cause.UNKNOWN, "<script>\x1b[2J"))]
    )
    assert "<script>" not in sheet.html()
    assert "\x1b" not in sheet.text()


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_next_step_that_fits_a_check(cause: Cause) -> None:
    step = next_step(CheckResult("x", False, problem=Failure(cause)))
    assert step == NEXT.get(cause, RULES[cause].advice)
    assert "next place is tried" not in step or cause in (Cause.CAPACITY, Cause.UNHEALTHY), (
        "a check tries no places"
    )


def test_the_results_are_the_sheet_s_data() -> None:
    sheet = check_table(RESULTS)
    assert [r.cloud for r in sheet] == ["aws", "gcp", "runpod"]
    assert sheet[1].problem is not None
    assert check_table([]).text() == "0 of 0 clouds can be used"
