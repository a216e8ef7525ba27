"""Detect what shows the output of this process: a browser with widgets, a file or a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

NONINTERACTIVE_VARIABLE = "NBPROV_NONINTERACTIVE"
"""`1` means to behave as under nbclient; `0` to behave as in a notebook that a person watches."""

_NO = ("", "0", "false", "no")


class Frontend(StrEnum):
    """The kinds of front end that can show an output.

    WIDGETS
        A notebook that a person watches: live panels, with static HTML and text beside them.
    STATIC
        A kernel that nobody watches (nbclient, papermill), or one without widget libraries:
        static HTML and text, which are renewed.
    TEXT
        A terminal or a script: lines of text only.
    """

    WIDGETS = "widgets"
    STATIC = "static"
    TEXT = "text"


def shell() -> Any | None:
    """Return the running IPython shell; None in a plain script."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def is_interactive(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether a person can be expected to watch the notebook and press buttons.

    Jupyter Server and VS Code name the session of the kernels they start; nbclient and papermill
    do not. Colab and Voila are known by variables of their own.
    """
    env = os.environ if environ is None else environ
    if NONINTERACTIVE_VARIABLE in env:
        return env[NONINTERACTIVE_VARIABLE].strip().lower() in _NO
    is_voila = env.get("SERVER_SOFTWARE", "").startswith("voila")
    return is_voila or any(env.get(name) for name in ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG"))


def has_widgets() -> bool:
    """Return whether the widget libraries are installed, without importing them."""
    return find_spec("anywidget") is not None and find_spec("ipywidgets") is not None


def current(environ: Mapping[str, str] | None = None) -> Frontend:
    """Return what shows the output of this process."""
    running = shell()
    if running is None or not hasattr(running, "kernel"):
        return Frontend.TEXT
    return Frontend.WIDGETS if is_interactive(environ) and has_widgets() else Frontend.STATIC
