"""One notebook open in JupyterLab, driven like a person drives it: keys, clicks and looking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from lab import TOKEN, Lab
from playwright.sync_api import Error, Locator, Page, expect

RAN = re.compile(r"^\[\d+\]:$")
RUNNING = "[*]:"
FORM = "[data-nbprov]"
"""The static form of a panel."""
REFUSED = "Content-Security-Policy"
KEY_MS = 10_000
"""A keystroke that JupyterLab accepted shows at the prompt at once. It sometimes loses one just
after it has opened."""
CELL_MS = 120_000
"""No cell of these tests takes longer, even on a busy machine."""


class NotebookPage:
    """A notebook in its own page.

    Attributes
    ----------
    page
        The browser's page.
    file
        The notebook on disk.
    kernel
        The name of the kernel that it uses.
    home
        nbprov's home for that kernel.
    question
        JupyterLab's dialog that asks which kernel to use.
    view
        The server's path of the front end: `doc/tree` is JupyterLab, `notebooks` is Notebook 7.
    """

    def __init__(
        self, page: Page, lab: Lab, file: Path, kernel: str, home: Path, view: str = "doc/tree"
    ) -> None:
        self.page, self.lab, self.file, self.kernel, self.home = page, lab, file, kernel, home
        self.view = view
        self.faults: list[str] = []
        self.question = page.locator(".jp-Dialog").filter(has_text="Select Kernel")
        page.on("pageerror", self._note)

    def _note(self, error: Error) -> None:
        # The panels' code comes from the kernel as a blob. Errors of JupyterLab's own code do not
        # count, nor does what a frame's policy refused, which Firefox tells as an error.
        if "blob:" in (error.stack or "") and error.name != REFUSED:
            self.faults.append(str(error.stack))

    def open(self) -> None:
        """Open the notebook and wait until its kernel is idle.

        From then on JupyterLab's question for a kernel is answered.
        """
        self.page.add_locator_handler(self.question, self._answer)
        self.goto()
        self.await_idle()

    def goto(self) -> None:
        """Open the notebook and wait until its cells are drawn."""
        self.page.goto(f"{self.lab.url}/{self.view}/{self.file.name}?reset&token={TOKEN}")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=CELL_MS)

    def await_idle(self) -> None:
        """Wait until the kernel is idle."""
        expect(
            self.page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        ).to_be_visible(timeout=CELL_MS)

    def _answer(self, question: Locator) -> None:
        """Answer JupyterLab's question for a kernel, which it asks if the last one was slow to
        start or end."""
        named = (
            "(options, name) => options.map((one) => one.value).find((value) => "
            "value.includes(JSON.stringify(name)))"
        )
        question.locator("select").select_option(
            value=question.locator("option").evaluate_all(named, self.kernel)
        )
        question.locator(".jp-mod-accept").click()

    def dialogs(self) -> list[str]:
        """Return the texts of JupyterLab's dialogs, which would take every click."""
        return self.page.locator(".jp-Dialog").all_inner_texts()

    def cell(self, starts: str, nth: int = 0) -> Locator:
        """Return the nth code cell whose source starts with this text."""
        pattern = re.compile(rf"^\s*{re.escape(starts)}")
        found = self.page.locator(".jp-CodeCell").filter(
            has=self.page.locator(".cm-content", has_text=pattern)
        )
        return found.nth(nth)

    def start(self, cell: Locator) -> None:
        """Press the keys that run a cell, and check that it runs or has run."""
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.text_content() or ""
        for _ in range(2):
            cell.locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")
            try:
                expect(prompt).not_to_have_text(before, timeout=KEY_MS)
            except AssertionError:
                continue
            return
        raise AssertionError(
            f"Lab did not run the cell {cell.locator('.cm-content').text_content()!r}"
        )

    def run(self, starts: str, nth: int = 0) -> Locator:
        """Run a cell to its end, where it must not have failed, and return its output area."""
        cell = self.cell(starts, nth)
        self.start(cell)
        self.finish(cell)
        return output(cell)

    def finish(self, cell: Locator) -> None:
        """Wait for the end of a running cell; it must not have failed."""
        expect(cell.locator(".jp-InputPrompt")).to_have_text(RAN, timeout=CELL_MS)
        errors = cell.locator('[data-mime-type="application/vnd.jupyter.error"]')
        assert errors.count() == 0, errors.first.inner_text()

    def is_running(self, cell: Locator) -> bool:
        """Return whether the cell's prompt shows that it is running."""
        return cell.locator(".jp-InputPrompt").text_content() == RUNNING

    def command(self, name: str, **arguments: Any) -> Any:
        """Run one of JupyterLab's commands, as its menus do; one that does not end fails."""
        # Playwright waits for a script without any limit.
        return self.page.evaluate(
            "([name, given, ms]) => Promise.race(["
            "jupyterapp.commands.execute(name, given).then(() => null),"
            " new Promise((_, fail) => setTimeout(() => fail(new Error(`${name} does not end`)),"
            " ms))])",
            [name, arguments, CELL_MS],
        )

    def press_command(self, name: str) -> None:
        """Begin one of JupyterLab's commands that asks a question first."""
        self.page.evaluate("name => { jupyterapp.commands.execute(name); }", name)

    def theme(self, name: str) -> None:
        """Switch JupyterLab's theme while everything is open, and wait until it is applied."""
        self.command("apputils:change-theme", theme=name)
        self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")

    def active_cell(self) -> int:
        """Return the number of the notebook's active cell."""
        number: int = self.page.evaluate(
            "[...document.querySelectorAll('.jp-Notebook-cell')].findIndex(c => "
            "c.matches('.jp-mod-active'))"
        )
        return number

    def cells(self) -> int:
        """Return how many cells the notebook has."""
        return self.page.locator(".jp-Notebook-cell").count()

    def save(self) -> None:
        """Save the notebook."""
        self.command("docmanager:save")

    def saved_form(self, starts: str) -> str:
        """Save the notebook, and return the static form of a cell's panel in the file."""
        self.save()
        saved = nbformat.read(self.file, as_version=4)
        (cell,) = (cell for cell in saved.cells if cell.source.startswith(starts))
        data = (out.data for out in cell.outputs if "data" in out)
        return str(next(d["text/html"] for d in data if "data-nbprov" in str(d)))

    def restart_kernel(self) -> None:
        """Restart the kernel as a person does."""
        self.press_command("notebook:restart-kernel")
        self.answer_dialog()

    def clipboard(self) -> str:
        """Return the text on the clipboard, pasted into a field of its own as a person would.

        A script may read it only with a permission that Firefox does not know.
        """
        self.page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<textarea id=pasted></textarea>')"
        )
        field = self.page.locator("#pasted")
        field.press("ControlOrMeta+v")
        expect(field).not_to_have_value("")
        text = field.input_value()
        field.evaluate("element => element.remove()")
        return text

    def answer_dialog(self) -> None:
        """Agree to JupyterLab's dialog about the kernel, and wait until the kernel is idle."""
        dialog = self.page.locator(".jp-Dialog")
        dialog.locator(".jp-mod-accept").click()
        dialog.wait_for(state="detached")
        self.await_idle()


def output(cell: Locator) -> Locator:
    """Return the output of a cell."""
    return cell.locator(".jp-Cell-outputArea")


def panel(place: Locator, label: str) -> Locator:
    """Return the panel with this accessible name: `Provision`, `Prices`, `Clusters`."""
    return place.locator(f'section.nbprov-root[aria-label="{label}"]')


def shown(place: Locator | Page, what: str) -> Locator:
    """Return what of this is in sight."""
    return place.locator(what).filter(visible=True)


def check_one_form(cell: Locator, label: str) -> None:
    """Check that a live panel hides its static form, which takes no room."""
    expect(panel(output(cell), label)).to_be_visible()
    expect(output(cell).locator(FORM)).to_have_count(1)
    expect(shown(output(cell), FORM)).to_have_count(0)
    children = output(cell).locator(".jp-OutputArea-child")
    boxes = [child.bounding_box() for child in children.all()]
    assert sum(box is not None and box["height"] > 0 for box in boxes) == 1


def button(place: Locator, words: str) -> Locator:
    """Return the visible button of a panel with exactly this label."""
    return place.locator("button:visible").filter(has_text=re.compile(rf"^{re.escape(words)}$"))


def state(panel: Locator) -> Locator:
    """Return the state in the first line of a run panel."""
    return panel.locator(".nbprov-header .nbprov-badge")


def has_focus(part: Locator) -> bool:
    """Whether the keyboard's focus is in a panel, on something that is there."""
    return bool(
        part.evaluate(
            "root => root.contains(document.activeElement)"
            " && document.activeElement.checkVisibility()"
            " && !document.activeElement.matches(':disabled')"
        )
    )


def header(table: Locator, label: str) -> Locator:
    """Return the column header with this label."""
    return table.locator('[role="columnheader"]').filter(
        has_text=re.compile(rf"^\s*{re.escape(label)}\s*$")
    )


def column(table: Locator, label: str) -> list[str]:
    """Return the texts of a column in the rows that are drawn, from the top."""
    texts: list[str] = table.evaluate(
        """(root, label) => {
            const cells = [...root.querySelectorAll('[role="columnheader"]')];
            const heads = cells.map((head) => head.textContent.trim());
            const rows = [...root.querySelectorAll('.nbprov-body [role="row"]:not([hidden])')];
            const place = (row) => Number(row.getAttribute("aria-rowindex"));
            rows.sort((a, b) => place(a) - place(b));
            return rows.map((row) => row.children[heads.indexOf(label)].textContent);
        }""",
        label,
    )
    return texts
