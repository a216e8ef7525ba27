"""Read the lock of a project that a machine has cloned, and check it before it is used."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace

from nbprov.machines.remote_file import read_remote_file
from nbprov.provisioning.live_cluster import LiveCluster

from .requirement_files import (
    CHOSEN,
    LOCK,
    MOST_BYTES,
    PROJECT,
    PythonFilesError,
    PythonSource,
    check_lock,
)


async def read_there(live: LiveCluster, source: PythonSource, clone: str) -> PythonSource:
    """Return the source with the files of the head's clone.

    Parameters
    ----------
    clone
        The clone's folder below the home.

    Raises
    ------
    PythonFilesError
        If they are missing, too large or not text, or if the lock does not match its project.
    """
    files = {}
    for name in (*PROJECT, CHOSEN):
        place = f"{clone}/{source.there}/{name}".replace("/./", "/")
        data = await read_remote_file(live.head, f'"$HOME"/{shlex.quote(place)}', MOST_BYTES)
        if data is not None:
            files[name] = _text(data, place)
        elif name in PROJECT:
            raise PythonFilesError(
                f"python: ~/{place} is not in the clone, or larger than {MOST_BYTES / 1e6:g} MB",
                hint=f"commit {LOCK} beside its pyproject.toml;"
                " a lock of this computer is named by its whole path",
                code="python.missing",
            )
    place = f"~/{clone}/{source.there}/{LOCK}".replace("/./", "/")
    renew = f"uv lock renews it: commit and push it, then %nbprov setup {live.name}"
    # In a thread, since a lock may have megabytes.
    await asyncio.to_thread(check_lock, files, place, renew)
    return replace(source, files=files)


def _text(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PythonFilesError(
            f"~/{place} is not a text in UTF-8", hint="save it as UTF-8"
        ) from None
