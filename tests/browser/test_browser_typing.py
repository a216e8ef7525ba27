"""What is wrong in a cell is told while it is typed."""

from __future__ import annotations

from collections.abc import Callable

from notebook_page import NotebookPage
from pictures import Album
from playwright.sync_api import Locator, expect

# What a cell underlines is drawn by the browser and is no element.
UNDERLINED = "[...(CSS.highlights.get('nbprov-problem') ?? [])].map((range) => range.toString())"


def await_notes(notebook: NotebookPage, notes: Locator, count: int) -> None:
    """Type on until the notes are there.

    Until the kernel's page link is open nobody hears: a person who types on is heard then.
    """
    for _ in range(60):
        notebook.page.keyboard.type(" ")
        try:
            expect(notes).to_have_count(count, timeout=1_000)
            return
        except AssertionError:
            continue
    raise AssertionError("the cell was not checked")


def check_beside(note: Locator, line: Locator) -> None:
    """Check that a note stands in its line."""
    there, here = note.bounding_box(), line.bounding_box()
    assert there is not None
    assert here is not None
    assert abs(there["y"] - here["y"]) < here["height"] / 2


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
    keyboard.insert_text("\nresources:\n  acelerators: A100:8\n  infra: [aws, gcp]\n")
    await_notes(notebook, notes, 1)
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


def test_lines_of_a_long_cell_have_their_marks_when_they_come_into_sight(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """The editor draws only what is near; other lines are marked from the same answer later."""
    notebook = open_notebook(["%load_ext nbprov", "%%provision dev"])
    notebook.run("%load_ext")
    page = notebook.page
    notes = page.locator(".nbprov-problem")
    in_sight = page.locator('.nbprov-problem:not([style*="inset"])')
    notebook.cell("%%provision").locator(".cm-content").click()
    page.keyboard.press("Control+End")
    # Lines that are alike, of which only their place tells which is meant.
    alike = "\n".join("  # the same" for _ in range(400))
    spec = f"resources:\n{alike}\n  acelerators: A100:8\n{alike}\nworkdirr: x"
    page.keyboard.insert_text(f"\n{spec}\n")
    await_notes(notebook, notes, 2)
    editor = page.locator(".cm-editor", has=notes)
    lines = editor.locator(".cm-line")
    assert lines.count() < 400, "the editor has drawn all"
    assert page.evaluate(UNDERLINED) == ["workdirr"]
    expect(in_sight).to_have_text("unknown field `workdirr`; did you mean `workdir`?")
    check_beside(in_sight, lines.filter(has_text="workdirr"))
    album.take_page("typing-end", page, 1400)

    editor.evaluate("(editor) => editor.querySelector('[role=status]').dataset.same = 'yes'")
    wrong = lines.filter(has_text="acelerators")
    page.mouse.move(600, 500)
    while not wrong.count():
        page.mouse.wheel(0, -700)
        page.wait_for_timeout(100)
    wrong.evaluate("line => line.scrollIntoView({ block: 'center' })")
    expect(in_sight).to_contain_text("did you mean `accelerators`?")
    assert page.evaluate(UNDERLINED) == ["acelerators"]
    check_beside(in_sight, wrong)
    expect(editor.locator("[role=status][data-same]")).to_have_count(1)
    expect(notes).to_have_count(2)
    album.take_page("typing-middle", page, 1400)

    page.keyboard.press("Control+End")
    page.keyboard.press("Backspace")
    expect(notes).to_have_count(0)
    assert page.evaluate(UNDERLINED) == []
