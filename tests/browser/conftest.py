"""One JupyterLab and one browser for all browser tests.

Each test has its own notebook, kernel, ledger and local cloud. These tests also take the pictures
of the README, which are committed. An ordinary run does not change docs/images; to renew them, run

    NBPROV_TEST_SCREENSHOTS=docs .venv/bin/python -m pytest tests/browser -q

The browser is Chromium. Tests marked `firefox` run in Firefox too, with the same helpers:

    NBPROV_TEST_BROWSER=firefox .venv/bin/python -m pytest tests/browser -q -m firefox
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import browsers
import local_cloud
from lab import Lab
from notebook_page import NotebookPage
from pictures import Album

HERE = Path(__file__).resolve().parent
VIEWPORT: ViewportSize = {"width": 1240, "height": 1400}
SHARPNESS = 1.5
EXPECT_MS = 60_000

Opener = Callable[..., NotebookPage]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


_failed = pytest.StashKey[bool]()
_shared = pytest.StashKey[ExitStack]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, so that a picture of the page can be kept."""
    report = yield
    if report.failed:
        item.stash[_failed] = True
    return report


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Iterator[ExitStack]:
    """What all tests of this folder share; it is closed after the last of them."""
    with ExitStack() as opened:
        request.config.stash[_shared] = opened
        yield opened


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the shared resources with the last test of this folder, because Playwright's event
    loop runs in this thread until then."""
    if _shared in item.config.stash and (nextitem is None or HERE not in nextitem.path.parents):
        item.config.stash[_shared].close()


@pytest.fixture(scope="session")
def browser(shared: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """One headless browser."""
    expect.set_options(timeout=EXPECT_MS)
    playwright = shared.enter_context(sync_playwright())
    opened = browsers.launch(playwright, tmp_path_factory.mktemp("browser"))
    shared.callback(opened.close)
    return opened


@pytest.fixture(scope="session")
def lab(shared: ExitStack) -> Lab:
    """One JupyterLab server."""
    server = Lab()
    shared.callback(server.close)
    return server


@pytest.fixture
def readers_zone() -> str | None:
    """The time zone of who looks at the page; None for that of this computer."""
    return None


@pytest.fixture
def open_notebook(
    lab: Lab,
    browser: Browser,
    nbprov_home: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    readers_zone: str | None,
) -> Iterator[Opener]:
    """Open a notebook, given as a file or as its cells, with its own ledger and local cloud.

    At the end that cloud must be empty, and the page must have had no error.
    """
    name = request.node.name.removeprefix("test_")
    context = browser.new_context(
        viewport=VIEWPORT, device_scale_factor=SHARPNESS, timezone_id=readers_zone
    )
    context.set_default_timeout(EXPECT_MS)
    pages: list[NotebookPage] = []

    def open_it(
        cells: Sequence[str] | Path, env: Mapping[str, str] | None = None, view: str = "doc/tree"
    ) -> NotebookPage:
        lab.add_kernel(name, {"NBPROV_HOME": str(nbprov_home), **(env or {})})
        file = lab.add_notebook(f"{name}.ipynb", name, cells)
        opened = NotebookPage(context.new_page(), lab, file, name, nbprov_home, view)
        pages.append(opened)
        opened.open()
        return opened

    yield open_it
    if request.node.stash.get(_failed, False):
        for number, opened in enumerate(pages):
            shot = tmp_path / f"failed-{number}.png"
            opened.page.screenshot(path=shot)
            print(
                f"what the page looked like: {shot}; what lay over it: "
                f"{opened.dialogs() or 'nothing'}"
            )
    context.close()
    lab.end_kernels()
    left = local_cloud.machines(nbprov_home)
    local_cloud.stop(nbprov_home)
    assert not left, f"the local cloud still lists {left} machines"
    assert not [fault for opened in pages for fault in opened.faults]


@pytest.fixture
def album(tmp_path: Path) -> Album:
    """Return the folder for pictures."""
    return Album(tmp_path)
