"""What a machine sends is shown and cannot act: texts, HTML, bundles, and made-up inputs."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines.cells import output
from nbprov.machines.cells.output import (
    LEAST,
    MESSAGE,
    RICH_TOTAL,
    TEXT_LIMIT,
    OutputBudget,
    OutputCollation,
)
from nbprov.machines.sanitize.display_data import (
    RICH_LIMIT,
    Frame,
    foreign_id,
    safe_content,
    safe_data,
    safe_output,
)
from nbprov.machines.sanitize.html import READ_LIMIT, inert_html
from nbprov.machines.sanitize.text import STRING_LIMIT, TextFilter, clean_text, is_clean
from nbprov.remote.agent.messages import OutputPiece

PIECES = [
    "\x1b",
    "[",
    "]",
    "0;",
    "31m",
    "K",
    "2J",
    "\x07",
    "\\",
    "\n",
    "\r",
    "\b",
    "\x9b",
    "\x9d",
    "P",
    "a",
    "ä",
    ";",
    "52;c;",
    "8;;http://x",
    "?25l",
    "\x1b[31m",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40), st.data())
def test_no_text_has_more_than_colours_left_however_it_is_cut(
    pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    assert is_clean(clean_text(text))
    stream, shown, at = TextFilter(), "", 0
    while at < len(text):
        size = data.draw(st.integers(1, 7))
        shown += stream.feed(text[at : at + size])
        at += size
    assert is_clean(shown)
    assert shown == clean_text(text)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("50%\r100%\n", "50%\r100%\n"),
        ("\x1b[1;31mred\x1b[0m\x1b[K", "\x1b[1;31mred\x1b[0m\x1b[K"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07after", "after"),
        ("\x1b]0;title\x07\x1b[2J\x1b[H\x1b[?1049h\x1bcx", "x"),
        ("\x9b2Jx\x9d0;t\x9cy", "xy"),
        ("\x1b]never closed\nnext line", "\nnext line"),
        ("\x1b]" + "x" * (STRING_LIMIT + 50) + "\x07", "x" * 50),
        ("bell\x07 null\x00", "bell null"),
        ("\x1b[2J\x1b[H\x1b[?1049hgone", "gone"),
        ("\x9b31mold\x1bcreset", "oldreset"),
        ("a\u202eb\u2066c\u2028d", "abcd"),
        ("half \ud83d of \udca9 it", "half  of  it"),
    ],
)
def test_sequences(sent: str, shown: str) -> None:
    assert clean_text(sent) == shown


@pytest.mark.parametrize(
    "text",
    [
        "<b>bold</b> and <i>not</i>",
        '<table border="1"><thead><tr style="text-align: right"><th></th><th>a</th></tr></thead>'
        "<tbody><tr><td>1</td></tr></tbody></table>",
        '<p style="color: rgb(1, 2, 3); font-weight: bold">x</p>',
        '<img src="data:image/png;base64,iVBORw0KGgo=">',
    ],
)
def test_plain_html_stays_as_it_is(text: str) -> None:
    assert inert_html(text) == text


def test_a_data_frame_of_pandas_is_a_table_and_no_frame() -> None:
    pandas = pytest.importorskip("pandas")
    told = safe_data(
        {"text/html": pandas.DataFrame({"a": [1, 2], "b": ["<x>", "y"]})._repr_html_()}
    )["text/html"]
    assert "<style" not in told
    assert "<td>&lt;x&gt;</td>" in told


ACTIVE = [
    "<script>alert(1)</script>",
    "<b onclick=alert(1)>x</b>",
    "<img src=x onerror=alert(1)>",
    "<img src=https://tracker.example/x.png>",
    '<a href="javascript:alert(1)">x</a>',
    '<a href=" java\tscript:alert(1)">x</a>',
    '<a href="/lab/tree">x</a>',
    "<iframe src=//evil></iframe>",
    "<object data=x></object><embed src=x>",
    "<form action=/logout><button>x</button></form>",
    "<meta http-equiv=refresh content=0>",
    "<link rel=stylesheet href=x>",
    "<style>@import url(x)</style>",
    "<style>input[value^=a] { background: url(//evil/a) }</style>",
    "<style>.dataframe td { position: fixed; text-align: left }</style>",
    '<div style="position: fixed; top: 0">x</div>',
    '<div style="margin: 0 -500px">x</div>',
    '<div style="background: url(//evil)">x</div>',
    '<div style="width: expr\\65ssion(1)">x</div>',
    '<div style="color: var(--x)">x</div>',
    "<svg onload=alert(1)></svg>",
    "<math><mtext></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<base href=//evil>",
    "<!DOCTYPE html><html></html>",
    "<?xml version='1.0'?>",
    "<template><b>x</b></template>",
    "<textarea></textarea>",
    # What browsers read in another way once it was written anew by a sanitizer.
    '<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">',
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=1">',
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'></xmp>",
    '<a href="java&#115;cript:alert(1)">x</a>',
    '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    '<img src="data:image/svg+xml;base64,AAAA">',
    "<img srcset=https://tracker.example/x.png>",
    "<table background=https://tracker.example/x.png></table>",
    "<button data-commandlinker-command=x>q</button>",
    '<div style="width: calc(100% + 500px)">x</div>',
    '<div style="background: u\\72l(//evil)">x</div>',
    '<div style="position:/**/fixed">x</div>',
]


@pytest.mark.parametrize("text", ACTIVE)
def test_active_html_is_for_a_frame_only(text: str) -> None:
    assert inert_html(text) is None
    data, frame = safe_output({"text/html": text, "text/plain": "x"})
    assert data == {"text/plain": "x"}
    assert frame is not None
    assert frame["page"] == text
    is_script = re.search("<script|onclick|onerror|onload|javascript:|<iframe|<object", text)
    assert frame["viewer"] == ("html" if is_script else "still")


class Seen(HTMLParser):
    """Records what an HTML parser finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


BITS = [
    *ACTIVE,
    "<",
    ">",
    '"',
    "'",
    "<b",
    "</b>",
    "<a ",
    'href="',
    "https://x",
    "javascript:",
    "onload=",
    "style=",
    "<!--",
    "-->",
    "&lt;",
    "&#60;",
    "<table>",
    "<td",
    "=",
    " ",
    "/",
    "<p>",
    "\0",
]


@given(st.lists(st.one_of(st.sampled_from(BITS), st.text(max_size=4)), max_size=12))
def test_whatever_is_made_up_nothing_active_stands_in_the_page(bits: list[str]) -> None:
    told = inert_html("".join(bits)) or ""
    for tag, attributes in Seen(told).tags:
        assert tag not in (
            "iframe",
            "script",
            "style",
            "object",
            "embed",
            "form",
            "meta",
            "link",
            "base",
            "svg",
            "math",
            "template",
            "input",
            "button",
        )
        for name, value in attributes:
            assert not name.startswith(("on", "data-"))
            assert name not in ("id", "class", "srcdoc")
            if name in ("href", "src"):
                assert re.match(r"https?:|mailto:|data:image/(png|jpeg|gif|webp);", value or "")


def test_a_bundle_keeps_its_data_and_loses_its_programs() -> None:
    data, frame = safe_output(
        {
            "text/plain": "fig\x1b]0;x\x07",
            "image/png": "iVBORw0KGgo=\n",
            "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
            "application/vnd.bokehjs_exec.v0+json": "alert(1)",
            "application/vnd.plotly.v1+json": {"data": [1]},
            "application/javascript": "alert(1)",
        }
    )
    assert data == {"text/plain": "fig", "image/png": "iVBORw0KGgo=\n"}
    assert frame == Frame(viewer="plotly", name="plotly", page='{"data": [1]}')


@pytest.mark.parametrize(
    "mime",
    [
        "application/vnd.dataresource+json",
        "application/vnd.nteract.data-explorer+json",
        "application/vnd.vega.v6",
        "application/vnd.plotly.v1+JSON",
        "application/vnd.jupyter.error",
        "application/vnd.jupyter.stdout",
        "application/vnd.holoviews_exec.v0+json",
        "application/x-vnd.odd",
        "text/vnd.mermaid",
    ],
)
def test_a_form_of_an_unknown_viewer_is_named_and_not_passed_on(mime: str) -> None:
    for value in ("alert(1)", {"a": "<img src=x onerror=alert(1)>"}):
        data, frame = safe_output({mime: value, "text/plain": "x"})
        assert frame is None
        assert set(data) == {"text/plain"}
        assert mime in data["text/plain"]
        assert data["text/plain"].endswith("\nx")


@pytest.mark.parametrize("mime", ["Text/HTML", "text/html;x", "image/bmp", "text/x-unknown", "*/*"])
def test_what_is_not_on_the_list_is_left_out(mime: str) -> None:
    assert safe_output({mime: "<img src=x onerror=alert(1)>", "text/plain": "x"}) == (
        {"text/plain": "x"},
        None,
    )


def test_what_is_not_shown_is_said() -> None:
    assert (
        "not run"
        in safe_data({"application/javascript": "alert(1)", "text/plain": "<Javascript>"})[
            "text/plain"
        ]
    )
    assert "16 MB" in safe_data({"image/png": "A" * (RICH_LIMIT + 1)})["text/plain"]
    assert "application/x-odd" in safe_data({"application/x-odd": {}})["text/plain"]
    assert safe_data(
        {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=3)"}
    ) == {"text/plain": "IntSlider(value=3)"}


def test_svg_is_a_picture_in_a_frame_unless_there_is_one_of_pixels() -> None:
    svg = {"image/svg+xml": "<svg onload='alert(1)'></svg>", "text/plain": "x"}
    data, frame = safe_output(svg)
    assert data == {"text/plain": "x"}
    assert frame is not None
    assert frame["viewer"] == "still"
    assert frame["page"].startswith('<img src="data:image/svg+xml;base64,')
    assert safe_output({**svg, "image/png": "AAAA"}) == (
        {"text/plain": "x", "image/png": "AAAA"},
        None,
    )


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x]: javascript:alert(1)",
        "&lt;",
        "```mermaid\ngraph TD\n```",
        "> ~~~ mermaid\n> graph TD",
        "```\u00a0mermaid\ngraph TD\n```",
        "$\\href{javascript:alert(1)}{x}$",
        "\\\\(\\\\href{javascript:alert(1)}{x}\\\\)",
    ],
)
def test_active_markdown_is_shown_as_its_source(text: str) -> None:
    told = safe_data({"text/markdown": text})
    assert set(told) == {"text/html"}
    seen = Seen(told["text/html"])
    assert [tag for tag, _ in seen.tags][-1:] == ["pre"]
    assert {tag for tag, _ in seen.tags} <= {"div", "pre"}
    assert seen.text.replace("\u00a0", " ") == text.replace("\u00a0", " ")


def test_plain_markdown_stays_markdown() -> None:
    for text in ("# *a* title", "```python\nx = 1\n```", "```\nx\n```", "$\\alpha + \\sqrt{2}$"):
        assert safe_data({"text/markdown": text}) == {"text/markdown": text}


@pytest.mark.parametrize(
    ("tex", "is_shown"),
    [
        (r"$\displaystyle \left[\begin{matrix}1 & x\\y & \frac{1}{2}\end{matrix}\right]$", True),
        (r"$$\int_0^\infty e^{-x}\,dx \leq \sum_{i=1}^{n} \alpha_i$$", True),
        (r"$\href{javascript:x}{y}$", False),
        (r"$\\\href{javascript:x}{y}$", False),
        (r"$\require{html}\href {javascript:x}{y}$", False),
        (r"$\providecommand\a{\b}$", False),
        (r"$\begin{align}\end{align} \csname href\endcsname{javascript:x}{y}$", False),
        (r"$\begin{html}x\end{html}$", False),
        (r"$\unicode{x}\style{position:fixed}{x}$", False),
        (r"\begin{document}", False),
    ],
)
def test_only_tex_that_sets_formulas_is_typeset(tex: str, is_shown: bool) -> None:
    told = safe_data({"text/latex": tex, "text/plain": "x"})
    assert ("text/latex" in told) == is_shown


def test_no_text_of_html_is_typeset() -> None:
    told = safe_data({"text/html": "<b>$\\href{javascript:alert(1)}{x}$</b>"})["text/html"]
    (outer, _) = Seen(told).tags
    assert outer == ("div", [("class", "mathjax_ignore tex2jax_ignore")])


def test_a_chart_of_vega_is_a_program_and_stands_in_a_frame() -> None:
    chart = {"data": {"url": "/api/contents/secret"}, "title": "</script><img src=x>"}
    data, frame = safe_output(
        {"application/vnd.vegalite.v5.20.1+json": chart, "text/plain": "alt.Chart(...)"}
    )
    assert data == {"text/plain": "alt.Chart(...)"}
    assert frame is not None
    assert frame["viewer"] == "vega"
    assert json.loads(frame["page"]) == {"mode": "vega-lite", "spec": chart}
    assert set(safe_data({"application/vnd.vega.v6+json": "no chart"})) == {"text/plain"}


def test_a_figure_of_bokeh_is_its_script() -> None:
    load = {"application/javascript": "x", "application/vnd.bokehjs_load.v0+json": "y"}
    assert "not loaded" in safe_data(load)["text/plain"]
    assert safe_output(
        {"application/javascript": "draw()", "application/vnd.bokehjs_exec.v0+json": ""}
    ).frame == Frame(viewer="bokeh", name="bokeh", page="draw()")


def test_a_map_is_shown_as_its_data_since_viewers_write_its_words_into_the_page() -> None:
    told = {"features": [{"properties": {"name": "<img onerror=alert(1)>"}}]}
    assert safe_data({"application/geo+json": told}) == {"application/json": told}


def test_halves_of_characters_reach_no_message() -> None:
    told = safe_data(
        {
            "text/plain": "a\ud83d",
            "text/html": "<b>\udca9</b>",
            "application/json": {"\ud800": ["\udfff"]},
        }
    )
    json.dumps(told, ensure_ascii=False).encode()
    assert told["application/json"] == {"?": ["?"]}


def test_a_flood_of_small_messages_ends_like_one_of_large_ones() -> None:
    seen: list[str] = []
    budget = OutputBudget(lambda message: seen.append(message["msg_type"]), "")
    gathered = OutputCollation(budget, "x")
    for number in range(1, TEXT_LIMIT // LEAST + 10):
        gathered.take(OutputPiece(number, 0.0, "stdout", "x"))
    at_first = len(seen)
    gathered.take(OutputPiece(1, 0.0, "gap", content={"from": 1, "to": 2}))
    for number in range(RICH_TOTAL // MESSAGE + 10):
        gathered.take(OutputPiece(number, 0.0, "clear_output"))
    after = len(seen)
    gathered.take(OutputPiece(1, 0.0, "clear_output"))
    assert at_first <= TEXT_LIMIT // LEAST + 2
    assert len(seen) == after


def test_of_several_nodes_neither_an_endless_line_nor_displays_without_end_wait_here() -> None:
    seen: list[Any] = []
    gathered = OutputCollation(OutputBudget(seen.append, ""), "x", "[1] ")
    for number in range(1, 30):
        gathered.take(OutputPiece(number, 0.0, "stdout", "x" * 10_000))
    assert len(seen) == 2
    assert sum(len(message["content"]["text"]) for message in seen) < 300_000
    for number in range(100):
        gathered.take(
            OutputPiece(
                number, 0.0, "display_data", content={"data": {"text/html": "y" * 1_000_000}}
            )
        )
    assert sum(len(content["data"]["text/html"]) for _, content in gathered._waiting) <= RICH_TOTAL


def test_a_flood_of_escapes_takes_no_time() -> None:
    begun = time.process_time()
    assert clean_text("a" + "\x1b\x00\x9b" * 3_000_000 + "b") == "ab"
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("bit", ["<", "<!", "<a ", "<!-- >", '</a x="', "<a b='x>y", "<?x >"])
def test_html_that_is_torn_all_over_is_framed_unread(bit: str) -> None:
    begun = time.process_time()
    assert inert_html(bit * (READ_LIMIT // len(bit) - 1)) is None
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("tag", ["div", "b", "table", "p", "ul"])
def test_html_that_is_nested_without_end_is_framed_at_once(tag: str) -> None:
    begun = time.process_time()
    assert inert_html(f"<{tag}>" * (READ_LIMIT // (len(tag) + 2) - 1)) is None
    assert time.process_time() - begun < 5


SLOW_FORMS = {
    "rules of pandas": (
        "text/html",
        "<style>" + ".dataframe tbody tr {vertical-align: top;}" * 2000 + "x</style>",
    ),
    "a long value of a style": ("text/html", f'<b style="color:{"a" * 80_000}">'),
    "backticks": ("text/markdown", "`" * 100_000),
    "fences and spaces": ("text/markdown", ("~~~" + " " * 50) * 2000),
    "tildes": ("text/markdown", "~" * 100_000 + " "),
    "brackets": ("text/markdown", ("]" + " " * 100) * 1000),
    "environments": ("text/latex", "\\begin" * 100_000),
}


@pytest.mark.parametrize("form", SLOW_FORMS)
def test_an_output_that_is_made_to_be_slow_is_cleaned_at_once(form: str) -> None:
    mime, text = SLOW_FORMS[form]
    begun = time.thread_time()
    safe_output({mime: text})
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize(
    "text",
    ["```json\n{}\n```", "~~~~ python\nx = 1\n~~~~\n", "a\n\n```\nplain\n```", "```` sh\nls\n````"],
)
def test_code_in_a_language_that_nothing_draws_stays_markdown(text: str) -> None:
    assert safe_data({"text/markdown": text}) == {"text/markdown": text}


@pytest.mark.parametrize(
    "text",
    ["a ``` json\n``` mermaid\n", "```json-mermaid\n```", "~~~`~ mermaid", "```" + "mermaid" * 9],
)
def test_code_in_any_other_language_is_shown_as_its_source(text: str) -> None:
    assert set(safe_data({"text/markdown": text})) == {"text/html"}


def test_a_style_sheet_that_does_more_than_align_the_text_of_tables_is_framed() -> None:
    rule = ".dataframe th { text-align: left; }"
    assert inert_html(f"<style>{rule}\n{rule}\n</style><b>x</b>") == "<b>x</b>"
    for bad in (f"{rule} x", f"{{}}{rule}", f"{rule}}}", ".dataframe", ".dataframe th {", "b {}"):
        assert inert_html(f"<style>{bad}</style><b>x</b>") is None


def test_a_character_with_a_number_without_end_is_for_a_frame() -> None:
    for attribute in ("", f" title='&#{'9' * 5000};'"):
        assert inert_html(f"<b{attribute}>&#{'9' * 5000};</b>") is None


KINDS = ["display_data", "update_display_data", "execute_result", "clear_output", "page"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_at_which_the_cleaner_fails_costs_that_output_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> Any:
        raise LookupError(kind)

    monkeypatch.setattr(output, "safe_content", fail)
    monkeypatch.setattr(output, "safe_page", fail)
    seen: list[Any] = []
    gathered = OutputCollation(OutputBudget(seen.append, ""), "x")
    gathered.take(OutputPiece(1, 0.0, "stdout", "before\n"))
    gathered.take(OutputPiece(2, 0.0, kind, content={"data": {"text/plain": "x"}}))
    gathered.take(OutputPiece(3, 0.0, "stdout", "after\n"))
    shown = [message["content"] for message in seen]
    assert [content.get("text") for content in shown] == ["before\n", None, "after\n"]
    if kind != "clear_output":
        assert shown[1]["data"] == {"text/plain": "[an output that could not be read]"}
    assert any(kind in record.getMessage() for record in caplog.records)


def test_display_ids_belong_to_one_sender() -> None:
    content = {
        "data": {"text/plain": "x"},
        "metadata": {"isolated": True},
        "transient": {"display_id": "nbprov-of-a-panel", "more": 1},
    }
    mine, other = (
        safe_content("display_data", content, "a"),
        safe_content("update_display_data", content, "b"),
    )
    assert mine["transient"] == {"display_id": foreign_id("a", "nbprov-of-a-panel")}
    assert mine["transient"] != other["transient"]
    assert mine["metadata"] == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_no_content_makes_it_fail(content: object) -> None:
    for kind in ("display_data", "execute_result", "clear_output"):
        safe_content(kind, content, "n")
    safe_content("display_data", {"data": content, "metadata": content, "transient": content}, "n")


@pytest.mark.parametrize("text", ["$" + "{" * 60_000 + "}" * 60_000 + "$", "*a " * 60_000])
def test_what_would_take_a_page_minutes_to_set_is_not_set(text: str) -> None:
    assert set(safe_data({"text/latex": text, "text/plain": "x"})) == {"text/plain"}
    assert set(safe_data({"text/markdown": text})) == {"text/html"}
    assert set(safe_data({"text/markdown": "*a* $x^2$"})) == {"text/markdown"}
