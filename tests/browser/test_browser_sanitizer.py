"""Chromium reads the HTML that the sanitizer writes, and finds nothing active in it."""

from __future__ import annotations

import random
from itertools import chain

from playwright.sync_api import Browser

from nbprov.machines.sanitize.html import inert_html

OWN = "parent.owned = window.owned = 1"
SEEDS = [
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={OWN!r}>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img onerror={OWN}'>",
    f"<svg></p><style><a id='</style><img src=1 onerror={OWN}>'>",
    f"<noscript><p title='</noscript><img src=x onerror={OWN}>'></noscript>",
    f"<template><img src=x onerror={OWN!r}></template>",
    f"<xmp><p title='</xmp><img src=x onerror={OWN}>'></xmp>",
    f"<select><option><style></select><img src=x onerror={OWN!r}>",
    f"<!--><img src=x onerror={OWN!r}>-->",
    f"<!-- --!><img src=x onerror={OWN!r}>",
    f"<![CDATA[<img src=x onerror={OWN!r}>]]>",
    f"<?x <img src=x onerror={OWN!r}>?>",
    f"<b title='a\"><img src=x onerror={OWN}>'>x</b>",
    f"<b title=`><img src=x onerror={OWN!r}>`>x</b>",
    f"<a href='java\tscript:{OWN}'>x</a><a href='//x'>y</a><a href='https://x\">'>z</a>",
    f"<p/onclick={OWN!r}/title=x>x</p>",
    f"<td><img src='data:image/png;base64,AAAA' onerror={OWN!r}>",
    "<table><caption><tr><td><table></caption><p><b></table></td>",
    "<p><table><tr><ruby><rp><b><i></p><li></table><ul><b></ul>",
    f"<textarea></textarea ><script>{OWN}</script>",
    f"<plaintext><script>{OWN}</script>",
    f"<title><a title='</title><img src=x onerror={OWN}>'></title>",
    f"<svg><desc><table><path><style><!--</style><a id='--><img src=x onerror={OWN}>'>",
]
BITS = [
    *("<", ">", "</", "/>", "<!--", "-->", "--!>", "<!", "]]>", "<![CDATA[", "<?", "\0", "\x0c"),
    *('"', "'", "`", "=", "&lt;", "&gt;", "&#60;", "&quot;", "&NewLine;", "&bogus;", "&lt"),
    *("<p>", "</p>", "<b>", "<table>", "<tr>", "<td>", "</table>", "<caption>", "<li>", "<a "),
    *("href=", "https://x", "title=", "style=", "color: red", "<details>", "<summary>", "<pre>\n"),
    *("<mark>", "<br>", "</br>", "<hr/>", "<img ", "src=data:image/png;base64,AA", "<div ", "x"),
]
ROUNDS = 4000
"""A round takes a tenth of a millisecond here and as long in the browser."""
READ = """texts => {
    const wrong = [];
    const active = "script, style, svg, math, form, iframe, object, embed, template, noscript,"
        + " textarea, select, title, meta, link, base, [srcdoc], [class], [id], [name]";
    for (const text of texts) {
        const place = document.createElement("div");
        document.body.replaceChildren(place);
        let html = text;
        for (let time = 0; time < 3; time++) {
            place.innerHTML = html;
            const named = [...place.querySelectorAll("*")].some((one) =>
                [...one.attributes].some(({ name, value }) => /^on|^data-/.test(name)
                    || /^(href|src)$/.test(name) && !/^(https?:|mailto:|data:image)/i.test(value)));
            if (named || place.querySelector(active)) wrong.push(text);
            html = place.innerHTML;
        }
    }
    return wrong;
}"""


def test_what_the_sanitizer_lets_through_stays_harmless_in_a_browser(browser: Browser) -> None:
    """Every text is read, written by the browser and read again, as sanitizers are broken."""
    rng = random.Random(7)
    made_up = (
        "".join(rng.choices(BITS, k=rng.randint(2, 14)))
        + rng.choice(["", *SEEDS])[: rng.randint(0, 90)]
        for _ in range(ROUNDS)
    )
    rebuilt = [text for text in map(inert_html, chain(SEEDS, made_up)) if text]
    assert len(rebuilt) > ROUNDS / 10
    page = browser.new_page()
    try:
        page.set_content("<body></body>")
        assert page.evaluate(READ, rebuilt) == []
        page.wait_for_timeout(100)
        assert page.evaluate("window.owned") is None
        # What was not rebuilt would have been found.
        assert page.evaluate(READ, SEEDS[:1]) != []
    finally:
        page.close()
