"""The repository as a whole: what an import drags in, what the papers say, and what no file may
hold.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAZY = (
    "boto3",
    "botocore",
    "runpod",
    "google",
    "pandas",
    "numpy",
    "ipywidgets",
    "anywidget",
    "asyncssh",
    "yaml",
)
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".mjs",
    ".js",
    ".css",
    ".ipynb",
    ".sh",
    ".html",
    ".cfg",
    ".txt",
    ".json",
    "",
}


@cache
def _tool(name: str) -> ModuleType:
    place = importlib.util.spec_from_file_location(
        f"_tool_{name}", ROOT / "tests" / "tools" / f"{name}.py"
    )
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@cache
def _sources() -> dict[str, str]:
    """Every text file of the project, by its path."""
    names = [name for name in _tool("tree").source_files(ROOT) if Path(name).suffix in TEXT]
    return {name: (ROOT / name).read_text(encoding="utf-8", errors="replace") for name in names}


def _project() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(project, dict)
    return project


def _targets() -> set[str]:
    return set(
        re.findall(
            r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )


def test_import_of_the_package_stays_light() -> None:
    code = (
        "import json, sys, nbprov; print(json.dumps(sorted({name.partition('.')[0] for name"
        " in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not set(LAZY) & set(json.loads(done.stdout))


def test_an_engine_that_has_no_machine_yet_loads_nothing_that_reaches_one(tmp_path: Path) -> None:
    later = {
        "asyncssh",
        "yaml",
        "urllib.request",
        "tarfile",
        "html.parser",
        "tomllib",
        "nbprov.spec",
        "nbprov.machines.tunnels.tunnels",
    }
    later |= {
        "nbprov.machines.cells.cells",
        "nbprov.remote.ssh.connection",
        "nbprov.remote.agent.client",
        "nbprov.clouds.local.daemon.machine_lifecycle",
    }
    code = (
        "import json, sys, nbprov; nbprov.session().engine.cloud('local');"
        f" print(json.dumps(sorted({later!r} & sys.modules.keys())))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "NBPROV_HOME": str(tmp_path)},
    )
    assert json.loads(told.stdout) == []


def test_changelog_opens_with_the_version_of_the_package() -> None:
    heading = re.search(
        r"^## \[?(\d+\.\d+\.\d+\S*?)\]?(?:\s|$)",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert heading is not None, "CHANGELOG.md has no version heading"
    assert heading[1] == _project()["version"]


def test_version_in_the_code_is_that_of_the_package() -> None:
    code = "import nbprov; print(getattr(nbprov, '__version__', None))"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()
    assert told in ("None", _project()["version"])


def test_licence_is_there_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert _project()["license"] == "Apache-2.0"


def test_no_file_holds_a_note_of_unfinished_work() -> None:
    note = re.compile(
        r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b(?![\w-])"
    )
    found = [
        f"{name}: {match[0]}"
        for name, text in _sources().items()
        if name != "LICENSE"
        for match in note.finditer(text)
    ]
    assert found == []


def test_no_file_names_a_place_of_one_machine() -> None:
    home = str(Path.home())
    places = [re.escape(str(ROOT) + "/")]
    if home not in ("/", "/root"):
        places.append(re.escape(home + "/"))
    place = re.compile("|".join(places))
    this = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{name}: {match[0]}"
        for name, text in _sources().items()
        if name != this
        for match in place.finditer(text)
    ]
    assert found == []


def test_commands_in_the_papers_exist() -> None:
    used: dict[str, set[str]] = {}
    for name, text in _sources().items():
        if name.endswith(".md"):
            code = re.findall(r"`([^`\n]+)`", text) + re.findall(
                r"^\s*\$?\s*(make .*)$", text, re.MULTILINE
            )
            used[name] = {
                target for line in code for target in re.findall(r"\bmake ([a-z][a-z-]*)\b", line)
            }
    unknown = {
        name: sorted(targets - _targets()) for name, targets in used.items() if targets - _targets()
    }
    assert unknown == {}


def test_readme_shows_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make lab"):
        assert command in readme, f"README.md does not say `{command}`"


def test_every_target_is_explained_and_none_is_a_file() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())  # type: ignore[index]
    assert _targets() == phony
    explained = set(re.findall(r"^([a-z-]+):[^#\n]*## \S", text, re.MULTILINE))
    assert {target for target in phony if not target.startswith("setup-")} == explained


def test_ci_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "make test" in text


def test_the_pages_prose_has_at_most_100_columns() -> None:
    """Tables, code, links and the names of tests cannot be broken."""
    wide = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for number, line in enumerate(_prose(page.read_text(encoding="utf-8")), 1)
        if len(line) > 100 and "](" not in line and not re.fullmatch(r"\W*`[^`]+`\W*", line)
    ]
    assert wide == []


def _prose(text: str) -> list[str]:
    """The lines of a page; those of tables and blocks of code are empty."""
    lines, is_code = [], False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        is_code = is_code != is_fence
        lines.append("" if is_code or is_fence or line.lstrip().startswith("|") else line)
    return lines


@pytest.mark.parametrize("folder", ["nbprov", "benchmarks", "tests/tools"])
def test_every_module_says_what_it_is(folder: str) -> None:
    modules = [
        name for name in _sources() if name.startswith(f"{folder}/") and name.endswith(".py")
    ]
    silent = [
        name
        for name in modules
        if _sources()[name].strip() and not ast.get_docstring(ast.parse(_sources()[name]))
    ]
    assert silent == []


def test_names_of_shared_test_modules_are_unique() -> None:
    """Two modules of one name would shadow each other: shared ones are found through `sys.path`."""
    modules = [name for name in _sources() if name.startswith("tests/") and name.endswith(".py")]
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for name in modules
        for node in ast.walk(ast.parse(_sources()[name]))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for alias in node.names
    }
    shared = [Path(name).stem for name in modules if Path(name).stem in imported - {"conftest"}]
    assert [name for name in shared if shared.count(name) > 1] == []
