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

from nbprov.machines.cells.output import (
    LEAST,
    MESSAGE,
    RICH_TOTAL,
    TEXT_LIMIT,
    OutputBudget,
    OutputCollation,
)
from nbprov.machines.sanitize.display_data import RICH_LIMIT, foreign_id, safe_content, safe_data
from nbprov.machines.sanitize.html import READ_LIMIT, inert_html, safe_html
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
    told = safe_html(pandas.DataFrame({"a": [1, 2], "b": ["<x>", "y"]})._repr_html_())
    assert "<iframe" not in told
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
    "$\\href{javascript:alert(1)}{x}$",
    "$\\hr<!-- -->ef{javascript:alert(1)}{x}$",
    "$\\def\\a{b}$",
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
def test_active_html_is_kept_in_a_frame_without_an_origin(text: str) -> None:
    assert inert_html(text) is None
    told = safe_html(text)
    seen = Seen(told)
    assert [tag for tag, _ in seen.tags] == ["iframe"]
    attributes = dict(seen.tags[0][1])
    assert attributes["sandbox"] == "allow-scripts"
    assert text in str(attributes["srcdoc"])
    assert "src" not in attributes
    assert seen.text == ""


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
    told = safe_html("".join(bits))
    for tag, attributes in Seen(told).tags:
        if tag == "iframe":
            assert dict(attributes)["sandbox"] == "allow-scripts"
            continue
        assert tag not in (
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
    told = safe_data(
        {
            "text/plain": "fig\x1b]0;x\x07",
            "image/png": "iVBORw0KGgo=\n",
            "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
            "application/vnd.bokehjs_exec.v0+json": "alert(1)",
            "application/vnd.plotly.v1+json": {"data": [1]},
            "application/javascript": "alert(1)",
        }
    )
    assert told == {
        "text/plain": "fig",
        "image/png": "iVBORw0KGgo=\n",
        "application/vnd.plotly.v1+json": {"data": [1]},
    }


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


def test_svg_is_a_picture_and_markdown_has_no_html() -> None:
    told = safe_data({"image/svg+xml": "<svg onload='alert(1)'></svg>", "text/plain": "x"})
    assert "image/svg+xml" not in told
    assert told["text/html"].startswith('<img src="data:image/svg+xml;base64,')
    assert safe_data({"text/markdown": "# *a* title"}) == {"text/markdown": "# *a* title"}
    for text in (
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x]: javascript:alert(1)",
        "&lt;",
    ):
        assert "text/markdown" not in safe_data({"text/markdown": text})
        assert "<img" not in safe_data({"text/markdown": text}).get("text/html", "")
    assert "text/latex" not in safe_data(
        {"text/latex": "$\\href{javascript:x}{y}$", "text/plain": "x"}
    )


def test_a_chart_of_vega_is_a_program_and_stands_in_a_frame() -> None:
    chart = {"data": {"url": "/api/contents/secret"}, "title": "</script><img src=x>"}
    told = safe_data(
        {"application/vnd.vegalite.v5.20.1+json": chart, "text/plain": "alt.Chart(...)"}
    )
    assert set(told) == {"text/plain", "text/html"}
    (frame,) = Seen(told["text/html"]).tags
    inside = dict(frame[1])
    assert (frame[0], inside["sandbox"]) == ("iframe", "allow-scripts")
    assert (inside["srcdoc"] or "").count("</script>") == 4
    assert "vega-lite@5" in (inside["srcdoc"] or "")
    assert set(safe_data({"application/vnd.vega.v6+json": "no chart"})) == {"text/plain"}


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
