"""`%nbprov setup` says what it sends from this computer."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from nbprov.notebook.commands import setup


def test_what_is_sent_is_printed_before_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting_up = SimpleNamespace(notes=("workdir: /keys is sent to the machine",))
    cluster = SimpleNamespace(set_up=lambda **_: setting_up)
    monkeypatch.setattr(setup, "session", lambda: SimpleNamespace(cluster=lambda name: cluster))
    monkeypatch.setattr(setup, "follow_setup", lambda *_, **__: print("its log"))
    setup.run(None, argparse.Namespace(name="dev"), None)
    assert capsys.readouterr().out == "workdir: /keys is sent to the machine\nits log\n"
