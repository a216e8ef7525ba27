"""One line of output that is replaced."""

from __future__ import annotations

from typing import Any

import pytest

from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.output_line import OutputLine


class _Publisher:
    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def publish(self, *, data: dict[str, Any], **_: Any) -> None:
        self.shown.append(data)


class _Shell:
    kernel = object()

    def __init__(self) -> None:
        self.display_pub = _Publisher()


def test_amounts_in_a_line_are_not_set_as_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = _Shell()
    monkeypatch.setattr(frontend, "shell", lambda: shell)
    OutputLine("it cost $0.00 (simulated: you pay $0)")
    (data,) = shell.display_pub.shown
    assert "mathjax_ignore" in data["text/html"]
    assert "$" not in data["text/html"].replace("<span>$</span>", "")
    assert data["text/plain"] == "it cost $0.00 (simulated: you pay $0)"
