"""What dropping one constraint would open, as text and as HTML."""

from __future__ import annotations

from nbprov.model.money import usd
from nbprov.notebook.rendering.relaxations import relaxation_table
from nbprov.planning import Relaxation

FOUND = (
    Relaxation("use_spot", "use_spot: prefer", 4, 1_204, usd("0.90")),
    Relaxation("max_price", "max_price: 2.70 <b>", 1, 1, usd("2.70")),
    Relaxation("zone", "leaving out zone", 0, 0, None),
    Relaxation("infra", "leaving out the place", 0, 0, None),
)


def test_text() -> None:
    lines = relaxation_table(FOUND).text().splitlines()
    assert lines[0] == "what dropping one constraint would open, each on its own:"
    assert [part.strip() for part in lines[1].split("  ") if part.strip()] == [
        "instead",
        "more places",
        "more offers",
        "from",
    ]
    assert lines[3].split() == ["use_spot:", "prefer", "4", "1,204", "$0.90/h"]
    assert lines[-1] == "these open nothing on their own: leaving out zone; leaving out the place"


def test_html_is_escaped_and_needs_no_script() -> None:
    html = relaxation_table(FOUND).html()
    assert html.count("<tr>") == 3
    assert "max_price: 2.70 &lt;b&gt;" in html
    assert "<script" not in html
    assert "leaving out zone" in html


def test_nothing_to_relax() -> None:
    assert relaxation_table(()).text() == "no single constraint stands in the way"
    closed = relaxation_table(FOUND[2:]).text().splitlines()
    assert closed == [
        "dropping any one constraint opens no place",
        "these open nothing on their own: leaving out zone; leaving out the place",
    ]


def test_the_data_stays_at_hand() -> None:
    sheet = relaxation_table(FOUND)
    assert (len(sheet), sheet[0].field, [r.places for r in sheet]) == (4, "use_spot", [4, 1, 0, 0])
    assert set(sheet.bundle()) == {"text/plain", "text/html"}
