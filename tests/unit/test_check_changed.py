"""Which unit tests `make check` runs for a change, and that it stops in time and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from changed_tests import TestImports, changed_files

TOOLS = Path(__file__).parents[1] / "tools"
FILES = {
    "nbprov/__init__.py": "",
    "nbprov/spec/__init__.py": "from .parser import parse\n",
    "nbprov/spec/parser.py": "def parse() -> None: ...\n",
    "nbprov/spec/yaml/__init__.py": "",
    "nbprov/spec/yaml/scalars.py": "",
    "nbprov/model/__init__.py": "",
    "nbprov/model/clock.py": "",
    "tests/unit/spec/spec_world.py": "import nbprov.spec.yaml.scalars\n",
    "tests/unit/spec/test_parser.py": "from nbprov.spec import parse\n",
    "tests/unit/spec/test_scalars.py": "from spec_world import a\n",
    "tests/unit/spec/test_named.py": "NAME = 'nbprov.spec.parser.parse'\n# pytest.mark.machine\n",
    "tests/unit/spec/test_clock_in_spec.py": "from nbprov.model import clock\n",
    "tests/unit/api/test_api.py": "from nbprov.spec import parser\nfrom nbprov.model.clock"
    " import a\nimport other_double\n",
    "tests/doubles/other_double.py": "",
    "tests/kernel/test_kernel.py": "import nbprov.spec.parser\n",
}


@pytest.fixture
def imports(tmp_path: Path) -> TestImports:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return TestImports(FILES, tmp_path)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        # Those of its own package alone, also by a name that a package passes on; machines come
        # last.
        ("nbprov/spec/parser.py", ["spec/test_parser.py", "spec/test_named.py"]),
        ("nbprov/spec/yaml/scalars.py", ["spec/test_scalars.py"]),
        # No test mirrors it.
        ("nbprov/model/clock.py", ["api/test_api.py", "spec/test_clock_in_spec.py"]),
        ("tests/unit/spec/spec_world.py", ["spec/test_scalars.py"]),
        ("tests/doubles/other_double.py", ["api/test_api.py"]),
        ("tests/unit/spec/test_parser.py", ["spec/test_parser.py"]),
        ("tests/kernel/test_kernel.py", []),
        ("docs/page.md", []),
    ],
)
def test_a_change_is_shown_by_the_tests_that_import_it(
    imports: TestImports, changed: str, shown: list[str]
) -> None:
    assert imports.showing([changed]) == [f"tests/unit/{name}" for name in shown]


def test_what_differs_from_the_base_and_what_git_does_not_know_yet_has_changed(
    tmp_path: Path,
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "-b", "main")
    for name in ("kept.py", "edited.py", "gone.py"):
        (tmp_path / name).write_text("")
    git("add", "-A")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "work")
    (tmp_path / "committed.py").write_text("")
    git("add", "-A")
    git("commit", "-qm", "second")
    (tmp_path / "edited.py").write_text("x = 1\n")
    (tmp_path / "new.py").write_text("")
    (tmp_path / "gone.py").unlink()
    assert changed_files(root=tmp_path) == ["committed.py", "edited.py", "new.py"]
    assert changed_files("HEAD", tmp_path) == ["edited.py", "new.py"]


@pytest.mark.parametrize(("workers", "passes"), [("0", True), ("2", True), ("2", False)])
def test_no_test_begins_after_the_time_and_those_left_out_are_named(
    tmp_path: Path, workers: str, passes: bool
) -> None:
    (tmp_path / "test_a.py").write_text(
        f"import time\ndef test_long(): time.sleep(0.5); assert {passes}\ndef test_after(): pass\n"
    )
    (tmp_path / "test_b.py").write_text("import time\ndef test_long(): time.sleep(0.5)\n")
    (tmp_path / "test_c.py").write_text("def test_late(): pass\n")
    options = [
        "-q",
        "-p",
        "time_limit",
        "-p",
        "no:cacheprovider",
        "--stop-after",
        "0.4",
        "-n",
        workers,
        "--dist",
        "loadfile",
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "--no-loadscope-reorder",
            "test_a.py",
            "test_b.py",
            "test_c.py",
        ],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is passes, done.stdout
    assert "test_c.py" in next(
        line for line in done.stdout.splitlines() if line.startswith("NOT BEGUN within 0 s")
    )
