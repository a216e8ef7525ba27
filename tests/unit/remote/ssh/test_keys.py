"""Key material: made once, private, and what OpenSSH itself makes of it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest

from nbprov.remote.ssh.keys import ClusterKeys, KeyMaterialError, inner_pair


def test_keys_are_private_and_come_back_equal(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = ClusterKeys.create(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert ClusterKeys.load(folder) == made
    assert made.client_public != made.host_public


def test_openssh_reads_them_and_agrees_on_the_fingerprint(tmp_path: Path) -> None:
    made = ClusterKeys.create(tmp_path / "keys")
    public = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(made.client_private_file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert public.split()[:2] == made.client_public.split()[:2]
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(made.folder / "host_ed25519.pub")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.split()[1] == made.fingerprint


def test_existing_keys_are_never_overwritten(tmp_path: Path) -> None:
    made = ClusterKeys.create(tmp_path / "keys")
    with pytest.raises(KeyMaterialError, match="already"):
        ClusterKeys.create(tmp_path / "keys")
    assert ClusterKeys.load(tmp_path / "keys") == made


@pytest.mark.parametrize("step", range(5))
def test_a_disk_that_fills_up_leaves_no_part_of_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    flushed = 0

    def full(handle: int) -> None:
        nonlocal flushed
        flushed += 1
        if flushed > step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyMaterialError, match="No space left on device") as raised:
        ClusterKeys.create(tmp_path / "keys")
    assert "make room on its disk" in raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_key_between_machines_that_cannot_be_written_is_one_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ClusterKeys.create(tmp_path / "keys")
    before = sorted(made.folder.iterdir())

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyMaterialError, match="No space left on device"):
        inner_pair(made.folder)
    assert sorted(made.folder.iterdir()) == before


@pytest.mark.parametrize("damage", ["missing", "garbled"])
def test_damaged_keys_are_named(tmp_path: Path, damage: str) -> None:
    made = ClusterKeys.create(tmp_path / "keys")
    if damage == "missing":
        made.client_private_file.unlink()
    else:
        made.client_private_file.write_text("not a key")
    with pytest.raises(KeyMaterialError, match="client_ed25519"):
        ClusterKeys.load(tmp_path / "keys")


def test_the_private_keys_show_in_no_repr(tmp_path: Path) -> None:
    made = ClusterKeys.create(tmp_path / "keys")
    assert "PRIVATE" not in repr(made)
