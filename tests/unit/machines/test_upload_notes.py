"""What a stranger's task file takes from this computer is said before Launch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tunnel_world import SPEC, TunnelWorld

from nbprov import api

OURS = "NBPROV_TEST_TOKEN"


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    for made in ("home/.ssh", "home/key", "notebook/data", "notebook/.aws"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "notebook" / "in").symlink_to(tmp_path / "home" / "key")
    return tmp_path / "notebook"


def notes(world: TunnelWorld, notebook: Path, more: str) -> list[str]:
    """What the panel says before Launch, and the plan without one."""
    run = world.session.provision(SPEC % "" + f"\n{more}", "new", folder=str(notebook))
    assert isinstance(run, api.Run)
    return list(run.driver.view().notes)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("file_mounts: {~/x: ~/.ssh}", ".ssh is sent to the machine; it is outside the"),
        ("workdir: ~/.ssh", "it is outside the"),
        ("file_mounts: {~/x: in}", "key is sent to the machine; it is outside the"),
        ("file_mounts: {~/x: ../home/key}", "key is sent to the machine; it is outside the"),
        ("file_mounts: {~/x: ./.aws}", ".aws is sent to the machine; it is hidden"),
        (f"secrets: {{{OURS}: null}}", f"the machine gets {OURS} of this kernel's environment"),
        (f"envs: {{{OURS}: null}}", f"the machine gets {OURS} of this kernel's environment"),
    ],
)
def test_what_leaves_this_computer_is_named_before_launch(
    world: TunnelWorld,
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    told: str,
) -> None:
    monkeypatch.setenv("HOME", str(notebook.parent / "home"))
    monkeypatch.setenv(OURS, "a-token-of-ours")
    found = notes(world, notebook, more)
    assert any(told in note for note in found)
    assert not any("a-token-of-ours" in note for note in found)


def test_what_lies_in_the_notebooks_folder_needs_no_word(
    world: TunnelWorld, notebook: Path
) -> None:
    found = notes(world, notebook, "workdir: .\nfile_mounts: {~/x: data}")
    assert not any("sent to the machine" in note for note in found)
