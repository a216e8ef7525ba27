"""The scaffold's package has tests that say what is left and pass once it is filled in.

The code in the guide equals the example's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbprov.clouds import scaffold as scaffolding
from nbprov.clouds.scaffold import FILES, ScaffoldError, main, scaffold
from nbprov.model.errors import NbprovError

ROOT = Path(__file__).parents[3]
IN_TREE = (ROOT / "tests" / "contract", ROOT / "tests" / "doubles")
EXAMPLE = ROOT / "tests" / "plugins" / "fluffycloud"
GUIDE = ROOT / "docs" / "adding-a-cloud.md"
BLOCK = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_tests(
    folder: Path, *which: str, path: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the new package's own tests in a process."""
    env = {**os.environ, "COLUMNS": "300", "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *(str(folder / w) for w in which),
    ]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_scaffold_writes_a_whole_package(tmp_path: Path) -> None:
    made = scaffold("acme_cloud", tmp_path / "new")
    assert made == tmp_path / "new" / "acme_cloud"
    assert {str(p.relative_to(made)) for p in made.rglob("*") if p.is_file()} == {
        name.replace("@@name@@", "acme_cloud") for name in FILES
    }
    for file in made.rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            assert "@@" not in text, file
            if file.suffix == ".py":
                compile(text, str(file), "exec")
    assert 'acme_cloud = "acme_cloud:make"' in (made / "pyproject.toml").read_text()
    assert "class AcmeCloud(Cloud)" in (made / "acme_cloud" / "provisioner.py").read_text()
    assert [p.name for p in made.parent.iterdir()] == ["acme_cloud"], "no draft is left"


@pytest.mark.parametrize(
    "left", [path for path in FILES if not path.endswith((".typed", ".jsonl"))]
)
def test_no_template_is_empty(left: str, tmp_path: Path) -> None:
    assert (scaffold("acme", tmp_path) / left.replace("@@name@@", "acme")).read_text().strip()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Acme", "scaffold.name"),
        ("a", "scaffold.name"),
        ("9lives", "scaffold.name"),
        ("my-cloud", "scaffold.name"),
        ("../up", "scaffold.name"),
        ("x" * 32, "scaffold.name"),
        ("", "scaffold.name"),
        ("lambda", "scaffold.name"),
        ("match", "scaffold.name"),
        ("json", "scaffold.taken"),
        ("requests", "scaffold.taken"),
        ("local", "scaffold.taken"),
        ("runpod", "scaffold.taken"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_with_a_hint(
    name: str, code: str, tmp_path: Path
) -> None:
    with pytest.raises(ScaffoldError) as raised:
        scaffold(name, tmp_path)
    assert raised.value.code == code
    assert raised.value.hint
    assert isinstance(raised.value, NbprovError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "has_fetcher"), [("vast", True), ("hyperstack", False)], ids=["fetched", "shipped"]
)
def test_a_cloud_with_prices_in_the_catalogue_keeps_their_names(
    name: str, has_fetcher: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--into", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    made = tmp_path / name
    known = re.search(r"types such as `([^`]+)`, in \d+ regions such as `([^`]+)`", said)
    assert known is not None, said
    shipped = (ROOT / "catalogs" / name / "types.csv").read_text(encoding="utf-8")
    assert known[1] in shipped
    assert known[0] in (made / "README.md").read_text(encoding="utf-8")
    assert not (made / name / "vms.csv").exists(), "the catalogue has its offers"
    assert "def offers" not in (made / name / "provisioner.py").read_text(encoding="utf-8")
    assert (made / name / "prices.py").exists() is not has_fetcher
    points = (made / "pyproject.toml").read_text(encoding="utf-8")
    assert ("nbprov.prices" in points) is not has_fetcher
    for file in made.rglob("*"):
        assert file.is_dir() or "@@" not in file.read_text(encoding="utf-8"), file


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "mine.txt").write_text("mine")
    assert main(["acme", "--into", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "acme").iterdir()] == ["mine.txt"]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scaffolding.FILES, "tests/last.py", "tests/no-such-template.txt")
    with pytest.raises(FileNotFoundError):
        scaffold("acme", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_template_is_used() -> None:
    folder = Path(scaffolding.__file__).parent / scaffolding.TEMPLATES
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == set(
        FILES.values()
    )


def test_command_says_what_comes_next(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nbprov.clouds.scaffold", "acme", "--into", str(tmp_path)]
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert "README.md" in said.stdout
    assert "docs/adding-a-cloud.md" in said.stdout


def test_unfilled_parts_say_what_they_have_to_do_and_which_step_tells_more(tmp_path: Path) -> None:
    said = run_tests(scaffold("acme", tmp_path), "tests")
    assert said.returncode == 1, said.stdout + said.stderr
    assert "error" not in said.stdout.splitlines()[-1], "failures, not errors"
    for words in (
        "fill in submit() in acme/provisioner.py: send ONE create for launch.count machines",
        "fill in poll() in acme/provisioner.py: Pending, Accepted(ids) or Refused(failure)",
        "fill in list() in acme/provisioner.py: all machines of this owner",
        "fill in terminate() in acme/provisioner.py",
        "fill in check() in acme/provisioner.py: one cheap authenticated call",
        "fill in USUAL in acme/api.py",
        "fill in said() in acme/errors.py",
        "fill in fetch() in acme/prices.py",
        "fill in acme/vms.csv",
        "fill in levels() in acme/stock.py",
        "fill in chosen() in acme/images.py",
        "fill in tests/corpus.jsonl: 0 of 25 labelled answers",
        "fill in answer() in tests/double.py: check the key, then self.create",
        "fill in launch() in tests/under_test.py: a launch that your double accepts",
    ):
        assert words in said.stdout, words
    steps = {
        int(step) for step in re.findall(r"see docs/adding-a-cloud\.md, step (\d+)", said.stdout)
    }
    assert steps == {2, 4, 5, 6, 7, 8}
    headings = {
        int(step)
        for step in re.findall(r"^## Step (\d+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert steps <= headings


@pytest.mark.machine
def test_filled_in_as_the_example_is_its_tests_pass(tmp_path: Path) -> None:
    made = scaffold("fluffycloud", tmp_path)
    shutil.copytree(
        EXAMPLE / "fluffycloud",
        made / "fluffycloud",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(EXAMPLE / "tests" / "corpus.jsonl", made / "tests" / "corpus.jsonl")
    (made / "tests" / "double.py").unlink()
    (made / "tests" / "under_test.py").write_text(
        "from fluffy_under_test import FluffyUnderTest as FluffycloudUnderTest\n"
    )
    said = run_tests(
        made,
        "tests/test_filled_in.py",
        "tests/test_causes.py",
        "tests/test_contract.py::test_cloud_keeps_the_contract[a_machine_lives_and_ends]",
        path=IN_TREE,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "failed" not in said.stdout.splitlines()[-1]


# ---------------------------------------------------------------- the guide


def blocks() -> list[tuple[str, str, str]]:
    """Language, note and text of each code block of the guide."""
    return [
        (found[1], found[2].strip(), found[3])
        for found in BLOCK.finditer(GUIDE.read_text(encoding="utf-8"))
    ]


def test_every_block_of_the_guide_is_of_a_kind_that_is_tested() -> None:
    assert len(blocks()) >= 10
    for language, note, text in blocks():
        is_file = (EXAMPLE / note).is_file() or (ROOT / note).is_file()
        assert is_file or language in ("console", "text"), (
            f"not tested: {language} {note}: {text[:60]}"
        )


@pytest.mark.parametrize(
    ("note", "text"),
    [(note, text) for language, note, text in blocks() if language not in ("console", "text")],
)
def test_code_of_the_guide_is_the_examples(note: str, text: str) -> None:
    file = EXAMPLE / note if (EXAMPLE / note).is_file() else ROOT / note
    content = file.read_text(encoding="utf-8")
    for part in text.split("    ...\n"):
        assert part.strip("\n") in content, f"{note} has no such lines:\n{part}"


def test_commands_of_the_guide_run(tmp_path: Path) -> None:
    ran = 0
    for language, _, text in blocks():
        if language != "console":
            continue
        for line in text.splitlines():
            if not line.startswith("$ "):
                continue
            command, _, _ = line[2:].partition("  #")
            words = command.split()
            if words[:3] == ["python", "-m", "nbprov.clouds.scaffold"]:
                said = subprocess.run(
                    [sys.executable, *words[1:]],
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert said.returncode == 0, said.stderr
                ran += 1
            elif words[0] == "pytest":
                said = run_tests(tmp_path / "acme", *words[1:])
                assert said.returncode in (0, 1), said.stdout
                assert "fill in" in said.stdout
                ran += 1
            else:
                assert words[0] in ("pip", "export", "cd"), f"not tested: {line}"
    assert ran >= 2


def test_every_call_of_the_contract_stands_in_the_guide() -> None:
    from nbprov.clouds.base import Cloud

    text = GUIDE.read_text(encoding="utf-8")
    calls = [
        name for name in vars(Cloud) if not name.startswith("_") and callable(getattr(Cloud, name))
    ]
    assert [name for name in calls if f"`{name}" not in text] == []
