"""The tools that run the suite: pins, stage choice, summaries, and the counting of what ran."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tests" / "tools"


@pytest.fixture(autouse=True)
def _tools_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(TOOLS))
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(TOOLS)):
            del sys.modules[name]


def test_lowest_turns_lower_bounds_into_pins() -> None:
    import environments

    assert environments.lowest(
        ["pandas>=2.0", "ipykernel>=6.31,!=7.0.*", "PyYAML>=6.0.1", 'old>=1; python_version < "3"']
    ) == [
        "pandas==2.0",
        "ipykernel==6.31",
        "pyyaml==6.0.1",
    ]


@pytest.mark.parametrize("requirement", ["pandas", "pandas<3", "pandas!=2.1"])
def test_lowest_refuses_a_requirement_without_a_lower_bound(requirement: str) -> None:
    import environments

    with pytest.raises(environments.PinError, match="pandas"):
        environments.lowest([requirement])


def test_every_runtime_requirement_can_be_pinned() -> None:
    import environments

    requirements = environments.runtime_requirements(ROOT)
    assert any(text.startswith("ipykernel") for text in requirements)
    assert len(environments.lowest(requirements)) == len(requirements)


def _stage(run: Any, name: str = "sample") -> Any:
    import work

    return work.Stage(name, "a stage for a test", run, deadline=120.0)


def _ran(tmp_path: Path, run: Any, **changes: Any) -> Any:
    import dataclasses

    import work

    stage = dataclasses.replace(_stage(run), **changes)
    done = work.Work(stage, tmp_path)
    stage.run(done)
    if done.is_undecided:
        done.second_look()
    return done.result


def test_a_command_counts_as_one(tmp_path: Path) -> None:
    result = _ran(
        tmp_path,
        lambda work: (
            work.command([sys.executable, "-c", "print('fine')"]),
            work.command(["false"]),
        ),
    )
    assert (result.passed, result.failed) == (1, 1)
    assert "fine" in "".join(result.log)


def test_a_program_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    assert _ran(tmp_path, lambda work: work.command(["/no/such/program"])).failed == 1


def test_a_stage_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time;"
        " time.sleep(600)'])"
    )
    result = _ran(tmp_path, lambda work: work.command([sys.executable, "-c", code]), deadline=1.0)
    assert result.failed == 1
    assert "was not done after" in "".join(result.log)


def test_pytest_counts_what_ran_and_names_what_did_not(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_few.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c():"
        " pytest.skip('for a reason')\n",
        encoding="utf-8",
    )
    result = _ran(tmp_path, lambda work: work.pytest([suite]))
    assert (result.passed, result.failed) == (1, 1)
    assert len(result.absent) == 1
    assert "for a reason" in result.absent[0]


def test_what_failed_once_and_passes_alone_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "from pathlib import Path\ndef test_fine(): pass\ndef test_again():\n    mark ="
        " Path(__file__).with_name('mark')\n"
        "    seen = mark.exists()\n    mark.touch()\n    assert seen, 'the first time'\n",
        encoding="utf-8",
    )
    result = _ran(tmp_path, lambda work: work.pytest([tmp_path], "-n", "2"))
    assert (result.passed, result.failed) == (2, 0)
    assert [name.rpartition("::")[2] for name in result.unsteady] == ["test_again"]
    assert "the first time" in "".join(result.log)


def test_a_second_look_waits_until_all_stages_have_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import run_all

    folder, scratch = tmp_path / "suite", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    (folder / "test_one.py").write_text(
        "from pathlib import Path\ndef test_after():\n    assert"
        " Path(__file__).with_name('mark').exists()\n",
        encoding="utf-8",
    )
    first = _stage(lambda work: work.at_once({"part": lambda part: part.pytest([folder])}), "first")
    last = _stage(lambda work: (folder / "mark").touch(), "last")
    suite = run_all.Suite(scratch, strict=True)
    suite.run([first, last])
    result = suite.results["first"]
    assert (result.passed, result.failed) == (1, 0)
    assert [name.rpartition("::")[2] for name in result.unsteady] == ["test_after"]
    assert "a few tests failed" in capsys.readouterr().out


def test_what_fails_in_its_second_look_too_has_failed(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "def test_fine(): pass\ndef test_bad(): assert 0\n", encoding="utf-8"
    )
    result = _ran(tmp_path, lambda work: work.pytest([tmp_path]))
    assert (result.passed, result.failed, result.unsteady) == (1, 1, [])


def test_a_stopped_run_gives_no_second_look_and_is_not_well(tmp_path: Path) -> None:
    import work

    (tmp_path / "test_one.py").write_text("def test_bad(): assert 0\n", encoding="utf-8")
    done = work.Work(_stage(lambda work: None), tmp_path)
    done.pytest([tmp_path])
    done.kill()
    done.second_look()
    assert done.result.failed == 1
    assert "not begun" in "".join(done.result.log)


def test_pytest_runs_by_this_repositorys_own_settings(tmp_path: Path) -> None:
    result = _ran(
        tmp_path,
        lambda work: work.pytest(
            [Path(__file__)], "-n", "2", "--dist", "loadfile", "-k", "turns_lower_bounds"
        ),
    )
    assert (result.passed, result.failed, result.absent) == (1, 0, [])


def test_many_failures_get_no_second_look(tmp_path: Path) -> None:
    import work

    tests = "".join(f"def test_{n}(): assert 0\n" for n in range(work.SECOND_LOOK + 1))
    (tmp_path / "test_many.py").write_text(tests, encoding="utf-8")
    result = _ran(tmp_path, lambda work: work.pytest([tmp_path]))
    assert (result.failed, result.unsteady) == (work.SECOND_LOOK + 1, [])
    assert "second look" not in "".join(result.log)


def test_a_pytest_run_that_breaks_before_any_test_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_a(): pass\n", encoding="utf-8")
    assert _ran(tmp_path, lambda work: work.pytest([tmp_path], "--no-such-flag")).failed == 1


def test_a_folder_without_tests_could_not_run(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    result = _ran(tmp_path, lambda work: work.pytest([empty]))
    assert (result.passed, result.failed, len(result.absent)) == (0, 0, 1)


def test_a_choice_without_tests_could_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_a(): pass\n", encoding="utf-8")
    result = _ran(tmp_path, lambda work: work.pytest([tmp_path], "-k", "nothing"))
    assert (result.passed, result.failed, len(result.absent)) == (0, 0, 1)
    assert "-k nothing" in result.absent[0]


def test_a_preparation_counts_only_when_it_fails(tmp_path: Path) -> None:
    assert _ran(tmp_path, lambda work: work.command(["true"], test=False)).passed == 0
    assert _ran(tmp_path, lambda work: work.command(["false"], test=False)).failed == 1


def test_summary_is_strict_in_ci_only() -> None:
    import run_all
    import work

    stages = [_stage(lambda work: None, "one"), _stage(lambda work: None, "two")]
    results = {"one": work.Result(passed=3), "two": work.Result(absent=["no browser"])}
    lines, well = run_all.summary(results, stages, strict=False)
    assert (lines[-1], well) == ("3 passed, 0 failed, 1 skipped", True)
    assert any("two: no browser" in text for text in lines)
    lines, well = run_all.summary(results, stages, strict=True)
    assert (lines[-1], well) == ("3 passed, 1 failed", False)


def test_summary_names_the_unsteady_and_is_well() -> None:
    import run_all
    import work

    stages = [_stage(lambda work: None, "one")]
    lines, well = run_all.summary(
        {"one": work.Result(passed=3, unsteady=["tests.test_x::test_y"])}, stages, strict=True
    )
    assert well
    assert "  one: tests.test_x::test_y" in lines
    assert any("3 passed, 1 unsteady" in text for text in lines)


def test_a_run_without_a_test_is_not_well() -> None:
    import run_all

    assert run_all.summary({}, [], strict=False)[1] is False


def test_a_stage_the_run_never_reached_is_named() -> None:
    import run_all
    import work

    stages = [_stage(lambda work: None, "one"), _stage(lambda work: None, "two")]
    lines, well = run_all.summary({"one": work.Result(passed=1)}, stages, strict=False)
    assert not well
    assert any("two: the run was stopped before it" in text for text in lines)


def test_a_stage_that_breaks_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import run_all

    def broken(work: Any) -> None:
        raise RuntimeError("this stage is broken")

    suite = run_all.Suite(tmp_path, strict=False)
    suite.run([_stage(broken)])
    assert suite.results["sample"].failed == 1
    assert "this stage is broken" in capsys.readouterr().out


def test_a_stage_begins_when_what_it_needs_has_ended_though_they_are_in_two_lanes(
    tmp_path: Path,
) -> None:
    import dataclasses
    import threading

    import run_all

    seen: list[str] = []
    begun = threading.Event()

    def first(work: Any) -> None:
        assert begun.wait(30)
        seen.append("first")

    def other(work: Any) -> None:
        begun.set()
        seen.append("other")

    stages = [
        dataclasses.replace(_stage(first, "first"), beside=True),
        _stage(other, "other"),
        dataclasses.replace(
            _stage(lambda work: seen.append("second"), "second"), after=("first", "not chosen")
        ),
    ]
    run_all.Suite(tmp_path, strict=False).run(stages)
    assert seen == ["other", "first", "second"]


def test_a_stage_that_is_ended_begins_nothing_more(tmp_path: Path) -> None:
    import run_all

    suite = run_all.Suite(tmp_path, strict=False)
    begun = tmp_path / "begun"

    def long(work: Any) -> None:
        suite.stop()
        work.command([sys.executable, "-c", f"open({str(begun)!r}, 'w')"])

    suite.run([_stage(long, "long"), _stage(long, "never")])
    assert not begun.exists()
    assert list(suite.results) == ["long"]


def test_parts_of_a_stage_that_run_at_once_are_counted_and_told_in_order(tmp_path: Path) -> None:
    import threading

    both = threading.Barrier(2, timeout=30)

    def one(work: Any) -> None:
        both.wait()
        work.command([sys.executable, "-c", "print('of one')"])
        work.note("one")

    def two(work: Any) -> None:
        both.wait()
        work.command(["false"])
        work.note("two")
        raise RuntimeError("two is broken")

    result = _ran(tmp_path, lambda work: work.at_once({"one": one, "two": two}))
    assert (result.passed, result.failed, result.notes) == (1, 2, ["one", "two"])
    log = "".join(result.log)
    assert 0 < log.index("of one") < log.index("two is broken")


def test_the_unit_tests_are_all_there_and_the_long_ones_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import stages
    import work

    asked: list[str] = []
    left_out: list[str] = []

    def pytest(self: Any, places: Sequence[Any], *arguments: str) -> None:
        asked.extend(str(place) for place in places)
        left_out.extend(word[9:] for word in arguments if word.startswith("--ignore="))

    monkeypatch.setattr(work.Work, "pytest", pytest)
    monkeypatch.setattr(work.Work, "command", lambda self, command, **_: True)
    _ran(tmp_path, stages.unit)
    assert [Path(place).name for place in asked[: len(stages.LONG_FIRST)]] == list(
        stages.LONG_FIRST
    )
    covered = {
        path
        for place in asked
        for path in (
            [ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("test_*.py")
        )
    } - {ROOT / place for place in left_out}
    asked.clear()
    _ran(tmp_path, stages.engines)
    covered |= {ROOT / place for place in asked if place != stages.ENGINE_NOTEBOOKS}
    assert covered == set((ROOT / "tests" / "unit").rglob("test_*.py"))


def test_every_browser_test_runs_in_one_stage_of_chromium() -> None:
    import stages

    assert all((ROOT / file).is_file() for file in stages.HOSTS)
    assert len(set(stages.HOSTS)) == len(stages.HOSTS)


def test_ci_runs_every_stage_and_make_test_all_that_are_not_for_ci_alone() -> None:
    import run_all
    import stages

    assert run_all.choose(None, everything=True) == list(stages.STAGES)
    here = {stage.name for stage in run_all.choose(None)}
    assert {stage.name for stage in stages.STAGES} - here == {
        "install",
        "windows",
        "hosts",
        "firefox",
        "lowest",
        "engines",
        "chaos",
        "ipykernel",
    }
    asked = subprocess.run(
        ["make", "-n", "test", "ALL=1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "run_all.py" in asked.stdout
    assert "--all" in asked.stdout
    assert "make test ALL=1" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_unknown_stage_names_the_known() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOLS / "run_all.py"), "--only", "unit,nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "nonsense" in done.stderr
    assert "contract" in done.stderr


def test_a_stale_or_torn_stamp_is_not_believed(tmp_path: Path) -> None:
    import prepare

    project = tmp_path / "pyproject.toml"
    project.write_text("a", encoding="utf-8")
    first = prepare.fingerprint(tmp_path)
    project.write_text("b", encoding="utf-8")
    assert prepare.fingerprint(tmp_path) != first
    venv = tmp_path / ".venv"
    venv.mkdir()
    (venv / "nbprov-test.json").write_text("{torn", encoding="utf-8")
    assert prepare._stamped(venv, "test") is None


def test_an_extra_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    import prepare

    (tmp_path / "pyproject.toml").write_text(
        "[project]\n[project.optional-dependencies]\nlab = []\n", encoding="utf-8"
    )
    with pytest.raises(prepare.PrepareError, match="demo"):
        prepare.prepare("demo", tmp_path)


def test_every_profile_names_an_extra_of_the_package() -> None:
    import tomllib

    import prepare

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert {profile.extra for profile in prepare.PROFILES.values()} <= set(extras)


@pytest.mark.parametrize("name", ["browser", "hosts", "firefox"])
def test_a_stage_without_its_browser_could_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import programs
    import stages

    monkeypatch.setattr(programs.Program, "find", lambda self: None)
    monkeypatch.setattr(programs, "may_apt", lambda: False)
    result = _ran(tmp_path, getattr(stages, name))
    assert (result.passed, result.failed) == (0, 0)
    wanted = programs.FIREFOX if name == "firefox" else programs.CHROMIUM
    assert result.absent == [programs.advice([wanted])]


def test_advice_is_one_line_that_names_all() -> None:
    import programs

    text = programs.advice([programs.SSHD, programs.CHROMIUM])
    assert "\n" not in text
    assert "sshd" in text
    assert "chromium" in text


def test_an_archive_without_chromiums_shell_has_the_rest_and_chromium(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apt installs nothing at all where it does not know one of the packages."""
    import programs

    asked: list[list[str]] = []
    monkeypatch.setattr(programs.Program, "find", lambda self: None)
    monkeypatch.setattr(programs, "may_apt", lambda: True)
    monkeypatch.setattr(programs, "_chromium_is_a_snap", lambda: False)
    monkeypatch.setattr(programs, "apt_install", asked.append)
    programs.install_missing([programs.SSHD, programs.CHROMIUM])
    assert asked == [
        ["openssh-server", "chromium-headless-shell"],
        ["openssh-server", "chromium"],
    ]
    assert "missing: sshd, chromium" in capsys.readouterr().err
