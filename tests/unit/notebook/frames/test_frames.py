"""The HTML of frames: what stands in the page, what in the payload, and where libraries are."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from nbprov.machines.sanitize.display_data import Frame, safe_content
from nbprov.notebook.frames import viewer_libraries
from nbprov.notebook.frames.frame_renderer import FrameRenderer, _shell

HOSTILE = '</script><img src=x onerror="alert(1)" \'>&quot;]]>-->'
SCRIPT = Frame(viewer="html", name="html", page=f"<script>1{HOSTILE}")


class Elements(HTMLParser):
    """Records the elements of a text, and the text outside scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found[-1][0] != "script":
            self.text += data

    def one(self, name: str) -> dict[str, str | None]:
        """Return the attributes of the only element that has this one."""
        (found,) = (attributes for _, attributes in self.found if name in attributes)
        return found


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment with packages of its own only."""
    viewer_libraries.library_of.cache_clear()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    yield tmp_path
    viewer_libraries.library_of.cache_clear()


def _add_plotly(packages: Path, code: str) -> None:
    file = packages / "plotly" / "package_data" / "plotly.min.js"
    file.parent.mkdir(parents=True)
    file.write_text(code, encoding="utf-8")
    (packages / "plotly" / "__init__.py").write_text("raise ImportError('heavy')", encoding="utf-8")


def _unpack(coded: str | None) -> str:
    return gzip.decompress(base64.b64decode(coded or "")).decode()


def _render(mode: str, frame: Frame, data: dict[str, Any] | None = None) -> Elements:
    given = {"text/plain": "as text"} if data is None else data
    return Elements(FrameRenderer(mode).render(given, frame)["text/html"])


@pytest.mark.parametrize("mode", ["ask", "on"])
def test_nothing_of_a_machine_stands_in_the_page_outside_the_payload(mode: str) -> None:
    seen = _render(mode, SCRIPT, {"text/plain": HOSTILE})
    assert [tag for tag, _ in seen.found] == ["div", "div", "pre", "div", "script"]
    assert HOSTILE in seen.text
    host = seen.one("data-nbprov-frame")
    assert host["data-nbprov-frame"] == mode
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", host["data-payload"] or "")
    assert json.loads(_unpack(host["data-payload"])) == {"viewer": "html", "page": SCRIPT["page"]}
    assert _render(mode, SCRIPT, {"image/png": "AA\nAA"}).one("src")["src"] == (
        "data:image/png;base64,AAAA"
    )


def test_what_cannot_run_is_shown_at_once_unless_frames_are_off() -> None:
    still = Frame(viewer="still", name="still", page="<style>p {}</style>")
    assert _render("ask", still).one("data-nbprov-frame")["data-nbprov-frame"] == "on"
    off = _render("off", still)
    assert [tag for tag, _ in off.found] == ["div", "div", "pre", "div"]
    assert "frames is 'off'" in off.text


def test_a_figure_without_its_library_is_shown_as_text_and_says_what_to_install(
    packages: Path,
) -> None:
    for viewer, package in viewer_libraries.PACKAGES.items():
        seen = _render("on", Frame(viewer=viewer, name=viewer, page="{}"))
        assert [tag for tag, _ in seen.found] == ["div", "div", "pre", "div"]
        assert "as text" in seen.text
        assert f"install {package} here" in seen.text


def test_the_library_of_a_figure_is_carried_once_a_cell_and_not_imported(packages: Path) -> None:
    _add_plotly(packages, "window.Plotly = {}; '</script>'")
    renderer = FrameRenderer("ask")
    figure = Frame(viewer="plotly", name="plotly", page="{}")
    first, second = (Elements(renderer.render({}, figure)["text/html"]) for _ in range(2))
    carrier = first.one("data-nbprov-library")
    assert _unpack(carrier["data-code"]) == "window.Plotly = {}; '</script>'"
    assert not [one for _, one in second.found if "data-nbprov-library" in one]
    for seen in (first, second):
        assert seen.one("data-library")["data-library"] == carrier["data-nbprov-library"]


def test_a_module_from_the_notebooks_folder_does_not_make_the_library_of_vega(
    packages: Path, tmp_path: Path, nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine's folder that was pulled there may hold one."""
    (packages / "vl_convert.py").write_text("open('ran', 'w')", encoding="utf-8")
    info = packages / "vl_convert_python-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vl-convert-python\nVersion: ../../x\n", encoding="utf-8"
    )
    monkeypatch.chdir(packages)
    seen = _render("on", Frame(viewer="vega", name="vega", page="{}"))
    assert "install vl-convert-python here" in seen.text
    assert not (packages / "ran").exists()


def test_the_policy_lets_two_scripts_of_ours_start_and_nothing_load() -> None:
    shell = _shell()
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', shell)[0]
    (script,) = re.findall(r"<script>(.*?)</script>", shell, re.DOTALL)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["script-src"].split()[0] == f"'sha256-{digest}'"
    assert re.fullmatch(r"('sha256-\S+' ){2}'unsafe-eval'", rules["script-src"])
    assert {name for name, value in rules.items() if value == "'none'"} == {
        *("default-src", "frame-src", "object-src", "form-action", "base-uri"),
    }
    assert rules["connect-src"] == "data: blob:"
    assert not re.search(r"https?:|wss?:|\*", policy)
    assert policy.count("unsafe-eval") == 1


def test_a_message_of_a_machine_reaches_the_renderer_as_a_frame() -> None:
    content = safe_content("display_data", {"data": {"text/html": SCRIPT["page"]}}, "n")
    assert content["frame"] == SCRIPT
    assert content["data"] == {"text/plain": ""}
