"""The browsers in which the tests run: Chromium, or Firefox where NBPROV_TEST_BROWSER says so."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import programs
import pytest
from playwright.sync_api import Browser, Playwright

WANTED = "NBPROV_TEST_BROWSER"
FIREFOX = "firefox"
RELAY = Path(__file__).with_name("firefox_relay.py")


def is_firefox() -> bool:
    """Whether the tests run in Firefox."""
    return os.environ.get(WANTED) == FIREFOX


def launch(playwright: Playwright, folder: Path) -> Browser:
    """Start the browser without a window; a test that needs a missing one is skipped.

    Parameters
    ----------
    folder
        An empty folder for what starting it needs.
    """
    if is_firefox():
        return playwright.firefox.launch(
            # The name that makes Playwright speak to a Firefox that it has not patched.
            channel="moz-firefox",
            executable_path=_relay(_find(programs.FIREFOX), folder),
            headless=True,
        )
    return playwright.chromium.launch(executable_path=_find(programs.CHROMIUM), headless=True)


def _find(program: programs.Program) -> Path:
    found = program.find()
    if found is None:
        pytest.skip(programs.advice([program]))
    return found


def _relay(firefox: Path, folder: Path) -> Path:
    """Write a program that takes Firefox's arguments and starts it behind the relay."""
    script = folder / "firefox"
    command = shlex.join([sys.executable, str(RELAY), str(firefox)])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script
