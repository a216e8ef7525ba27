"""`%prices` and `%%nbprov plan` in a shell, on the shipped prices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testing_shell import TestingShell

from nbprov import api
from nbprov.catalog import UnknownName
from nbprov.model.errors import UsageError
from nbprov.notebook.extension import load, unload
from nbprov.spec import SpecError


@pytest.fixture
def shell(nbprov_home: Path) -> Iterator[TestingShell]:
    made = TestingShell()
    load(made)
    yield made
    unload(made)
    api.close()


def offers(shell: TestingShell, line: str) -> Any:
    """Return the DataFrame of a `%prices` line."""
    shell.run_cell(f"x = %prices {line}")
    return shell.user_ns["x"]


def plan(shell: TestingShell, capsys: pytest.CaptureFixture[str], line: str, body: str) -> str:
    """Return everything that a `%%nbprov plan` cell shows, as text."""
    capsys.readouterr()
    result = shell.run_cell(f"%%nbprov plan {line}\n{body}").result
    return capsys.readouterr().out + ("" if result is None else repr(result))


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (
            "A100:8 --spot --cloud aws --cloud gcp",
            "set(x.market) == {'spot'} and set(x.cloud) == {'aws', 'gcp'}",
        ),
        (
            "80GB+:8 --region eu",
            "set(x.continent) == {'eu'} and x.accelerator_memory_gib.min() > 74",
        ),
        (
            "A100:4+ --on-demand",
            "x.accelerator_count.min() == 4 and set(x.market) == {'on-demand'}",
        ),
        (
            "/^H[12]00$/ --min-price 3 --max-price 5",
            "x.hourly.between(3, 5).all() and set(x.accelerator) == {'H100', 'H200'}",
        ),
        (
            "rtx40 --cloud runpod",
            "x.accelerator.str.startswith('RTX40').all() and x.accelerator.nunique() > 1",
        ),
        (
            "--type p4d.24xlarge --region us-east-1",
            "set(x.instance_type) == {'p4d.24xlarge'} and set(x.region) == {'us-east-1'}",
        ),
        ("--cpus 8 --memory 64+ --cloud aws", "set(x.vcpus) == {8} and x.memory_gib.min() >= 64"),
        ("T4 --zone us-central1-a", "set(x.zone) == {'us-central1-a'}"),
    ],
)
def test_questions(shell: TestingShell, line: str, holds: str) -> None:
    frame = offers(shell, line)
    assert len(frame)
    assert eval(holds, {"x": frame})


@pytest.mark.parametrize(
    ("code", "is_frame"),
    [
        ("x = %prices A100", True),
        ("x = get_ipython().run_line_magic('prices', 'A100')", True),
        ("def f():\n    y = %prices A100\n    return y\nx = f()", True),
        ("x = get_ipython().run_line_magic('prices', 'A100').to_frame()", True),
        ("x = [get_ipython().run_line_magic('prices', 'A100')][0]", False),
        ("%prices A100\nx = 1", None),
    ],
)
def test_what_is_stored_is_a_frame(shell: TestingShell, code: str, is_frame: bool | None) -> None:
    import pandas as pd

    shell.run_cell(code)
    assert is_frame is None or isinstance(shell.user_ns["x"], pd.DataFrame) is is_frame


def test_the_value_of_a_line_is_a_table(shell: TestingShell) -> None:
    table = shell.run_cell("%prices rtx40 --cloud runpod").result
    assert len(table) > 20
    assert table[0].hourly <= table[1].hourly
    assert len(table.to_frame()) == len(table)
    title = table.text().splitlines()[0]
    assert title.startswith("prices of rtx40 (RTX4000-Ada, ")
    assert title.endswith(f": {len(table):,} offers")
    assert f"{len(table) - 20:,} more rows" in table.text()
    assert (
        shell.run_cell("%prices --type p4d.24xlarge")
        .result.text()
        .startswith("prices of p4d.24xlarge: ")
    )


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("A100 --cloud awz", UnknownName, "no cloud is called 'awz'"),
        ("A100 --region eu-wst-1", UnknownName, "no region is called 'eu-wst-1'"),
        ("A100 --type p4d.24xlargo", UnknownName, "no instance type is called"),
        ("A100 --cpus lots", UsageError, "--cpus: `lots` is not a number of vCPUs"),
        ("A100 --memory big", UsageError, "--memory: `big` is not an amount of memory"),
        ("A100 --fresh -1", UsageError, "expected one argument|not a number of days"),
        ("A100 --spot --on-demand", UsageError, "not allowed with"),
        ("A100 --min-price nan", UsageError, "not a number of dollars"),
    ],
)
def test_what_is_asked_wrongly(
    shell: TestingShell, line: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        shell.run_cell(f"%prices {line}")


def test_nothing_fresh_says_what_to_do(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(offers(shell, "A100 --fresh 0")) == 0
    assert "%nbprov catalog refresh" in capsys.readouterr().out


def test_a_bad_override_is_said_once(
    shell: TestingShell, capsys: pytest.CaptureFixture[str], nbprov_home: Path
) -> None:
    folder = nbprov_home / "overrides"
    folder.mkdir(parents=True)
    (folder / "aws.csv").write_text("InstanceType,Region,Price\np4d.24xlarge,us-east-1,cheap\n")
    shell.run_cell("x = %prices A100")
    told = capsys.readouterr().out
    assert told.startswith("note: aws: ")
    assert told.count("\n") == 1
    shell.run_cell("x = %prices H100")
    assert capsys.readouterr().out == ""


SPEC = "resources: {accelerators: A100:8, infra: aws}\n"


def test_a_plan_says_why_and_how(shell: TestingShell, capsys: pytest.CaptureFixture[str]) -> None:
    body = "race: 2\nwait: 2h\nbudget: 100\nconfirm_above: {hourly: 25}\nmax_lifetime: 1d\n"
    told = plan(shell, capsys, "--assume aws", f"{SPEC}{body}")
    for words in (
        "why here",
        "cheapest",
        "over the first",
        "planned as if these were set up: aws",
        "places to try, first A100:8 p4d.24xlarge in aws/",
        "Costs at most $",
        "guards: down after 1 d",
        "confirm_above: ",
        "race: up to 2 places at once",
        "wait: where nothing is in stock it is watched for 2 h",
        "budget: $100.00 lasts",
    ):
        assert words in told, words


def test_a_plan_counts_what_was_left_out(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    told = plan(shell, capsys, "--assume aws", "resources: {accelerators: A100:8, max_price: 22}\n")
    assert "left out: " in told
    assert "dearer than the cap of $22.00 an hour" in told
    assert "azure is not set up\n" in told


def test_an_empty_plan_points_to_relax_and_relax_to_a_way_out(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "resources: {accelerators: A100:8, infra: aws, max_price: 1}\n"
    told = plan(shell, capsys, "--assume aws", body)
    assert "no candidates" in told
    assert "may take" not in told
    assert told.count("--relax") == 1
    told = plan(shell, capsys, "--assume aws --relax", body)
    assert "--relax" not in told
    assert "what dropping one constraint would open, each on its own:" in told
    assert "max_price: " in told


def test_where_confirm_above_passes_everything_over_nothing_is_agreed_to(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    told = plan(shell, capsys, "--assume aws", f"{SPEC}confirm_above: {{hourly: 2}}\n")
    assert "passed over" in told
    assert "may take" not in told


def test_variables_are_shown_and_kept(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns |= {"gpus": ["H100:8", "A100:8"], "token": "canary-7781", "hours": 3}
    body = (
        'resources: {accelerators: $gpus, infra: aws}\nmax_lifetime: "${hours}h"\n'
        "secrets: {TOKEN: $token}\n"
    )
    told = plan(shell, capsys, "--assume aws", body)
    assert "$gpus = ['H100:8', 'A100:8']" in told
    assert "1st choice" in told
    assert "guards: down after 3 h" in told
    assert "canary" not in told
    with pytest.raises(SpecError) as caught:
        shell.run_cell("%%nbprov plan\nresources: {accelerators: $gpu}\n")
    assert "$gpus" in caught.value.hint


def test_all_errors_of_a_cell_at_once(shell: TestingShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF", raising=False)
    for magic in ("%%provision dev", "%%provision dev --dry-run", "%%nbprov plan"):
        with pytest.raises(SpecError) as caught:
            shell.run_cell(
                f"{magic}\nnum_nodes: 0\nenvs: {{HF: null}}\nbudget: -1\nengine: spark\n"
            )
        assert [(p.line, p.path) for p in caught.value.problems] == [
            (2, "num_nodes"),
            (3, "envs.HF"),
            (4, "budget"),
            (5, "engine"),
        ]
    with pytest.raises(SpecError) as caught:
        shell.run_cell("%%provision dev --env HF=1\nnum_nodes: 0\nenvs: {HF: null}\n")
    assert [p.path for p in caught.value.problems] == ["num_nodes"]


def test_a_dry_run_says_what_launch_would_refuse(
    shell: TestingShell, capsys: pytest.CaptureFixture[str]
) -> None:
    told = plan(shell, capsys, "--assume aws", f"{SPEC}budget: 0.01\n")
    assert "launch would be refused: a budget of" in told
