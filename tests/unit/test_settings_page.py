"""docs/settings.md names every variable that the code reads, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ROOT / "nbprov"
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
OTHERS = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("clouds.md", "using.md", "jobs-and-engines.md")
)
"""The variables of clouds, which another test checks, and those of several machines."""

MADE_UP = {"NBPROV_END", "NBPROV_END_OF_PROGRAM", "NBPROV_LABEL_TEAM_COST_CENTRE"}
"""Prefixes and suffixes in the code, and an example of a label."""
NOT_READ = {
    "CUDA_VISIBLE_DEVICES",
    "GRPC_ENABLE_FORK_SUPPORT",
    "LAST_LINES",
    "RAY_ADDRESS",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S",
    "SKYPILOT_DOCKER_PASSWORD",
    "SKYPILOT_DOCKER_SERVER",
    "SKYPILOT_DOCKER_USERNAME",
}
"""Variables set for processes on a machine, fields of a spec, and similar words."""


def _ours() -> Iterator[tuple[str, str]]:
    for path in sorted(CODE.rglob("*")):
        if path.suffix in (".py", ".txt"):
            for name in re.findall(
                r"\bNBPROV_[A-Z][A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")
            ):
                yield name, path.relative_to(CODE).as_posix()


def _read_here() -> Iterator[tuple[str, str]]:
    """Yield what looks like a variable in the modules that read this computer's environment.

    Clouds have their own page and test.
    """
    for path in sorted(CODE.rglob("*.py")):
        where, text = path.relative_to(CODE).as_posix(), path.read_text(encoding="utf-8")
        if "environ" in text and not where.startswith(("clouds/", "remote/", "on_machine/")):
            for node in ast.walk(ast.parse(text)):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", node.value)
                ):
                    yield node.value, where


def _is_said(name: str) -> bool:
    return f"`{name}`" in PAGE + OTHERS


def test_every_variable_of_ours_is_on_a_page() -> None:
    assert {
        name: where for name, where in _ours() if name not in MADE_UP and not _is_said(name)
    } == {}


def test_every_variable_that_this_computers_side_reads_is_on_a_page() -> None:
    assert {
        name: where
        for name, where in _read_here()
        if name not in MADE_UP | NOT_READ and not _is_said(name)
    } == {}
    assert {name for name, _ in _read_here()} >= NOT_READ, "an exception that nobody needs any more"


def test_no_variable_on_the_page_is_made_up() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in CODE.rglob("*.py"))
    composed = set(
        re.findall(
            r'"([A-Z_]+)": ',
            (CODE / "remote" / "boot" / "node_environment.py").read_text(encoding="utf-8"),
        )
    )
    named = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", PAGE))
    assert {
        name for name in named if name not in code and name.removeprefix("NBPROV_") not in composed
    } == set()


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(
            r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for target, anchor in re.findall(r"\]\(([a-zA-Z_./-]*\.md)?(?:#([a-z0-9_-]+))?\)", text):
            there = page.parent / target if target else page
            assert there.is_file(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(there), f"{page.name}: {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for heading in headings
    }
