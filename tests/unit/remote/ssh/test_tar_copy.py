"""What is copied, what is left out, and where it may go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.remote.errors import CopyError
from nbprov.remote.ssh.tar_copy import plan_copy, remote_path
from nbprov.remote.sync.gitignore import IgnoreRules

PATTERNS = [
    "*.pyc",
    "/data/",
    "build/",
    "a/**/z",
    "**/cache",
    "docs/*.txt",
    "!keep.pyc",
    "[ab].md",
    "[!c].log",
    "# a comment",
    "x\\*y",
    "p?q",
    "deep/er/",
]
PATHS = [
    "a.pyc", "keep.pyc", "d/keep.pyc", "d/e.pyc", "data/f", "d/data/f",
    "build/o", "d/build/o", "a/z", "a/b/c/z", "cache/k", "d/cache/k",
    "docs/t.txt", "docs/d/t.txt", "a.md", "c.md", "c.log", "e.log",
    "x*y", "xzy", "pxq", "p/q", "deep/er/f", "d/deep/er/f", "plain",
]  # fmt: skip


def test_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(PATTERNS) + "\n")
    for name in PATHS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    command = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard", "-z"]
    kept = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")[
        :-1
    ]
    plan = plan_copy(tmp_path)
    assert sorted(name for name, path in plan.entries if path.is_file()) == sorted(kept)


@given(
    st.text(st.characters(codec="utf-8"), max_size=30), st.text("abc/.*", min_size=1, max_size=12)
)
def test_no_ignore_file_can_break_a_copy(text: str, path: str) -> None:
    rules = IgnoreRules.parse(text)
    assert rules.ignores(path, is_folder=False) in (True, False)


def test_our_own_ignore_file_replaces_gits(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("data\n")
    (tmp_path / ".nbprovignore").write_text("*.tmp\n")
    (tmp_path / "data").write_text("wanted")
    (tmp_path / "a.tmp").write_text("not")
    names = [name for name, _ in plan_copy(tmp_path).entries]
    assert "data" in names
    assert "a.tmp" not in names


def test_links_out_of_the_folder_and_special_files_are_skipped_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("x")
    (folder / "inside").symlink_to("file")
    (folder / "sub" / "up").symlink_to("../file")
    (folder / "out").symlink_to("../secret")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "folder-out").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    plan = plan_copy(folder)
    assert {name for name, _ in plan.entries} == {"sub", "file", "inside", "sub/up"}


@pytest.mark.parametrize("target", ["../x", "~/../x", "/a/../../etc", "~other/x", "a\nb", "a\0b"])
def test_targets_that_climb_are_refused(target: str) -> None:
    with pytest.raises(CopyError):
        remote_path(target)


@given(
    st.text(
        st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\n~"),
        min_size=1,
        max_size=20,
    )
)
def test_a_target_is_one_shell_word_below_the_home(name: str) -> None:
    if ".." in name.split("/"):
        with pytest.raises(CopyError):
            remote_path("~/" + name)
        return
    word = remote_path("~/" + name)
    done = subprocess.run(
        [shutil.which("sh") or "sh", "-c", f"printf %s {word}"],
        env={"HOME": "/h"},
        capture_output=True,
        check=True,
    )
    told = done.stdout.decode()
    below = name.strip("/")
    assert told == ("/h/" + below if below not in ("", ".") else "/h")


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(CopyError, match="nowhere"):
        plan_copy(tmp_path / "nowhere")
