"""What is wrong in a cell is told while it is typed."""

from __future__ import annotations

from collections.abc import Callable

from notebook_page import NotebookPage
from pictures import Album
from playwright.sync_api import expect

# What a cell underlines is drawn by the browser and is no element.
UNDERLINED = "[...(CSS.highlights.get('nbprov-problem') ?? [])].map((range) => range.toString())"


def test_a_cell_is_checked_while_it_is_typed(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", "%%provision dev"])
    notebook.run("%load_ext")
    cell = notebook.cell("%%provision")
    notes = cell.locator(".nbprov-problem")
    cell.locator(".cm-content").click()
    keyboard = notebook.page.keyboard
    keyboard.press("Control+End")
    # Until the kernel's page link is open nobody hears: a person who types on is heard then.
    keyboard.insert_text("\nresources:\n  acelerators: A100:8\n  infra: [aws, gcp]\n")
    for _ in range(60):
        keyboard.type(" ")
        try:
            expect(notes).to_have_count(1, timeout=1_000)
            break
        except AssertionError:
            continue
    expect(notes).to_have_text(
        "unknown field `acelerators` under `resources`; did you mean `accelerators`?"
    )
    assert notebook.page.evaluate(UNDERLINED) == ["acelerators"]
    album.take("typing", cell)
    keyboard.press("Control+A")
    keyboard.insert_text("%%provision dev\nresources: {labels: {to: 🚀🚀}, infra: awz, cpus: 2}\n")
    expect(notes).to_have_text("no cloud is called 'awz'; did you mean aws?")
    assert notebook.page.evaluate(UNDERLINED) == ["awz"]
    # A browser whose window loses the focus says so, and leaves the editor the active element.
    cell.locator(".cm-content").dispatch_event("focusout")
    expect(notes).to_have_count(1)
    notebook.page.evaluate("document.activeElement.blur()")
    expect(notes).to_have_count(0)
    assert notebook.page.evaluate(UNDERLINED) == []
    cell.locator(".cm-content").click()
    keyboard.press("Control+A")
    keyboard.insert_text("%%provision dev\nresources: {infra: awz}\n")
    expect(notes).to_have_count(1)
    keyboard.press("Control+A")
    keyboard.insert_text("%%provision dev\nresources:\n  accelerators: A100:8\n  infra: aws\n")
    expect(notes).to_have_count(0)
    assert notebook.page.evaluate(UNDERLINED) == []
