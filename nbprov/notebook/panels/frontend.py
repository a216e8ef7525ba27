"""What shows the output of this process: a browser with widgets, a saved notebook, a terminal, or nobody."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

NONINTERACTIVE_VARIABLE = "NBPROV_NONINTERACTIVE"
"""`1`: behave as under nbclient; `0`: behave as in a notebook that a person looks at."""

_NO = ("", "0", "false", "no")


class Host(StrEnum):
    """How far an output can go.

    WIDGETS
        A notebook that a person looks at: live panels, with static HTML and text beside them.
    STATIC
        A kernel that nobody looks at (nbclient, papermill) or one without widget libraries: static HTML and text, renewed.
    TEXT
        A terminal or a script: lines of text only.
    """

    WIDGETS = "widgets"
    STATIC = "static"
    TEXT = "text"


def shell() -> Any | None:
    """The running IPython shell; None in a plain script."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def is_interactive(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a person can be expected to look at the notebook and press buttons.

    Jupyter Server and VS Code name the session of the kernels they start; nbclient and papermill do not. Colab and Voila are
    known by variables of their own.
    """
    env = os.environ if environ is None else environ
    if NONINTERACTIVE_VARIABLE in env:
        return env[NONINTERACTIVE_VARIABLE].strip().lower() in _NO
    is_voila = env.get("SERVER_SOFTWARE", "").startswith("voila")
    return is_voila or any(env.get(name) for name in ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG"))


def has_widgets() -> bool:
    """Whether the widget libraries are installed. They are not imported by this."""
    return find_spec("anywidget") is not None and find_spec("ipywidgets") is not None


def current(environ: Mapping[str, str] | None = None) -> Host:
    """What shows the output of this process."""
    running = shell()
    if running is None or not hasattr(running, "kernel"):
        return Host.TEXT
    return Host.WIDGETS if is_interactive(environ) and has_widgets() else Host.STATIC
