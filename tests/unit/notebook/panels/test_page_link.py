"""What a page asks of the kernel's link is answered, whatever happens to the answer."""

from __future__ import annotations

from typing import Any

from nbprov.notebook.panels.page_link import PageLink


class Pages:
    """Stands for the widget, as far as the link sends with it."""

    comm = None

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.told.append(message)


def test_a_cell_is_answered_with_its_text_and_its_problems() -> None:
    link, pages = PageLink(), Pages()
    link._widget = pages
    link.check = lambda source: [{"message": f"no {source}"}]
    link._receive(pages, {"type": "cell", "source": "spec"}, [])
    assert pages.told == [
        {"type": "problems", "source": "spec", "problems": [{"message": "no spec"}]}
    ]


def test_a_check_that_breaks_says_nothing_at_each_key() -> None:
    link, pages = PageLink(), Pages()
    link._widget = pages

    def broken(source: str) -> list[dict[str, Any]]:
        raise ZeroDivisionError

    link.check = broken
    link._receive(pages, {"type": "cell", "source": "spec"}, [])
    link._receive(pages, {"type": "cell", "source": 7}, [])
    assert [one["problems"] for one in pages.told] == [[]]
