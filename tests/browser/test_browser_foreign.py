"""What a machine sends is shown in real JupyterLab and cannot reach its page.

A remote cell survives a restart of the local kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from local_cloud import set_market
from notebook_page import NotebookPage, output
from playwright.sync_api import expect

PROVISION = "%%provision dev --yes --wait\nresources:\n  cpus: 2\n  infra: local\nmax_lifetime: 1h"

# Every known way to run code where a notebook shows an output unchanged. Each would leave `owned`
# in the page.
HOSTILE = """%%on dev
from IPython.display import display, HTML, Javascript, SVG, Markdown, Latex
act = (
    "for (const w of [window, parent, top]) {"
    " try { w.owned = (w.owned || '') + '%s ' } catch (e) {} }"
)
told = ";document.getElementById('seen').textContent = 'its script ran, origin ' + origin"
display(HTML('<p id=seen>waiting</p><script>' + act % 'script' + told + '</script>'))
display(HTML('<img src=x onerror="' + act % 'onerror' + '">'))
display(HTML('<iframe srcdoc="<script>' + act % 'nested' + '</script>"></iframe>'))
link = 'data-commandlinker-command="apputils:activate-command-palette"'
display(HTML('<b>bold</b> <span ' + link + '>x</span>'))
display(HTML('<a href="https://example.org/">a link</a>'))
head = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="'
tail = '</script><rect width="20" height="20"/></svg>'
display(SVG(head + act % 'svg' + '"><script>' + act % 'svg' + tail))
display(Javascript(act % 'javascript'))
display(Markdown('<img src=x onerror="' + act % 'markdown' + '">'))
display(Latex('$\\\\href{javascript:owned=1}{x}$'))
raw = {'text/html': '<script>' + act % 'raw' + '</script>', 'text/plain': 'x'}
display(raw, raw=True, metadata={'isolated': True})
print('\\x1b]0;title\\x07shown')
"""

LONG = """%%on dev
import os, time
print('begun', flush=True)
while not os.path.exists('go'): time.sleep(0.02)
print('the end')
"""


def test_active_output_of_a_machine_cannot_reach_the_page(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    """It is drawn in frames, as pictures and as text, and none of it has run in the page."""
    notebook = open_notebook(["%load_ext nbprov", PROVISION, HOSTILE, "%nbprov down dev"])
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    notebook.run("%%provision")
    shown = notebook.run("%%on dev")
    shown.get_by_role("button", name="Show HTML with a program").first.click()
    framed = shown.locator("iframe").first.content_frame.locator("iframe").content_frame
    expect(framed.locator("#seen")).to_have_text("its script ran, origin null")
    expect(shown.locator("b", has_text="bold")).to_be_visible()
    expect(shown.locator("a", has_text="a link")).to_have_attribute("target", "_blank")
    expect(shown).to_contain_text("JavaScript from the machine: not run")
    expect(shown).to_contain_text("shown")
    for frame in shown.locator("iframe").all():
        assert frame.get_attribute("sandbox") == "allow-scripts"
    assert shown.locator("[onerror], [onload], [data-commandlinker-command], script").count() == 0
    assert notebook.page.evaluate("window.owned") is None
    notebook.run("%nbprov down")


def test_a_cell_there_outlives_a_restart_here(open_notebook: Callable[..., NotebookPage]) -> None:
    """JupyterLab's own restart button is pressed during the cell; the next kernel shows all of
    its output."""
    follow = "%nbprov cells dev cell- --follow"
    notebook = open_notebook(
        [
            "%load_ext nbprov",
            PROVISION,
            LONG,
            follow,
            "%%on dev --bash\ntouch go",
            "%nbprov down dev",
        ]
    )
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    notebook.run("%%provision")
    cell = notebook.cell("%%on dev")
    notebook.start(cell)
    expect(output(cell)).to_contain_text("begun")
    notebook.restart_kernel()
    notebook.run("%load_ext")
    notebook.run("%%on dev --bash")
    shown = notebook.run(follow)
    expect(shown).to_contain_text("begun")
    expect(shown).to_contain_text("the end")
    notebook.run("%nbprov down")
