"""The key material of one cluster.

It is a client pair that may log in, and the host pair that the machines must show.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbprov.model.errors import NbprovError
from nbprov.model.paths import make_folder

CLIENT_KEY = "client_ed25519"
HOST_KEY = "host_ed25519"
INNER_KEY = "inner_ed25519"
KNOWN_HOSTS = "known_hosts"


class KeyMaterialError(NbprovError):
    """A cluster's key files are missing, unreadable or not what they should be."""

    code = "remote.keys"


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The keys of one cluster, made before its first machine exists.

    So the first connection is already verified.

    Attributes
    ----------
    folder
        Where the files lie; 0700, its files 0600.
    client_public, host_public
        OpenSSH lines, `ssh-ed25519 AAAA… comment`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "dev"
    >>> made = ClusterKeys.create(folder)
    >>> ClusterKeys.load(folder) == made, made.client_public.split()[0]
    (True, 'ssh-ed25519')
    """

    folder: Path
    client_public: str
    host_public: str

    @classmethod
    def create(cls, folder: Path) -> ClusterKeys:
        """Make both pairs in `folder`, which must not hold keys yet.

        Raises
        ------
        KeyMaterialError
            If there are keys already. Machines may exist that know them, so they are never
            overwritten. Or if the disk cannot be written; then nothing of them is left.
        """
        if any((folder / name).exists() for name in (CLIENT_KEY, HOST_KEY)):
            raise KeyMaterialError(
                f"{folder} holds a cluster's keys already",
                hint="load them, or choose another folder",
            )
        try:
            make_folder(folder, folder)
            folder.chmod(0o700)
            client_public = _make_pair(folder / CLIENT_KEY, "nbprov")
            host_public = _make_pair(folder / HOST_KEY, "nbprov-host")
            keys = cls(folder, client_public, host_public)
            _write_private(folder / KNOWN_HOSTS, keys.known_hosts.encode())
        except BaseException as error:
            cls.remove(folder)
            if isinstance(error, OSError):
                raise _unwritable(folder, error) from error
            raise
        return keys

    @classmethod
    def load(cls, folder: Path) -> ClusterKeys:
        """Read the keys that `create` made.

        Raises
        ------
        KeyMaterialError
            If a file is missing or is not an ed25519 key.
        """
        for name in (CLIENT_KEY, HOST_KEY):
            _read(folder / name, "-----BEGIN OPENSSH PRIVATE KEY-----")
        client_public = _read(folder / f"{CLIENT_KEY}.pub", "ssh-ed25519 ").strip()
        host_public = _read(folder / f"{HOST_KEY}.pub", "ssh-ed25519 ").strip()
        return cls(folder, client_public, host_public)

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove the keys in `folder` with it, for good; what cannot be removed stays."""
        shutil.rmtree(folder, ignore_errors=True)

    @property
    def client_private_file(self) -> Path:
        """The file to log in with, as `ssh -i` takes it."""
        return self.folder / CLIENT_KEY

    @property
    def host_private(self) -> str:
        """The private host key as OpenSSH text. Only for a machine's start script."""
        return _read(self.folder / HOST_KEY, "-----BEGIN OPENSSH PRIVATE KEY-----")

    @property
    def host_alias(self) -> str:
        """The name under which ssh knows these machines, whatever their addresses are."""
        return "nbprov-" + hashlib.sha256(self.host_public.split()[1].encode()).hexdigest()[:16]

    @property
    def known_hosts(self) -> str:
        """The content of the file by which ssh knows these machines."""
        kind, key = self.host_public.split()[:2]
        return f"{self.host_alias} {kind} {key}\n"

    @property
    def known_hosts_file(self) -> Path:
        """The file by which ssh knows these machines."""
        return self.folder / KNOWN_HOSTS

    @property
    def fingerprint(self) -> str:
        """The host key's fingerprint as OpenSSH shows it, `SHA256:…`."""
        blob = base64.b64decode(self.host_public.split()[1])
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def inner_pair(folder: Path) -> tuple[str, str]:
    """Return the private and public key by which a cluster's machines log in to each other.

    It is made when it is first asked for. It is apart from the pair that this computer logs in
    with, which never leaves it.

    Raises
    ------
    KeyMaterialError
        If a file is unreadable or not what it should be, or cannot be written.
    """
    path = folder / INNER_KEY
    if not path.exists():
        fresh = path.with_name(f"{INNER_KEY}.{uuid.uuid4().hex}")
        try:
            _make_pair(fresh, "nbprov-gang")
            # Of two kernels at the same time one is first, and both use its key. The public key is
            # read from the private one.
            with suppress(FileExistsError):
                try:
                    os.link(fresh, path)
                except OSError as error:
                    if isinstance(error, FileExistsError):
                        raise
                    fresh.replace(path)  # a file system without hard links
        except OSError as error:
            raise _unwritable(folder, error) from error
        finally:
            for draft in (fresh, fresh.with_name(fresh.name + ".pub")):
                with suppress(OSError):
                    draft.unlink()
    private = _read(path, "-----BEGIN OPENSSH PRIVATE KEY-----")
    return private, _public_of(private)


def _public_of(private: str) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_ssh_private_key(private.encode(), None)
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
    )


def _make_pair(path: Path, comment: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = (
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
        + f" {comment}"
    )
    _write_private(path.with_name(path.name + ".pub"), public.encode() + b"\n")
    _write_private(path, private)
    return public


def _unwritable(folder: Path, error: OSError) -> KeyMaterialError:
    return KeyMaterialError(
        f"the keys of a cluster cannot be written into {folder}: {error.strerror or error}",
        hint="make room on its disk, or make that folder writable; then launch again",
    )


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, start: str) -> str:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyMaterialError(
            f"the key file {path} cannot be read: {error}",
            hint="end the cluster; a new one gets new keys",
        ) from error
    if not text.startswith(start):
        raise KeyMaterialError(
            f"{path} is not an ed25519 key that nbprov made",
            hint="end the cluster; a new one gets new keys",
        )
    return text
