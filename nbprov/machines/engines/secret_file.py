"""A file (0600) with a secret of a cluster's engine, in the folder of the cluster's keys."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def secret_file(folder: Path, name: str, make: Callable[[], bytes]) -> Path:
    """Return the file of a secret, which is made on first use.

    Parameters
    ----------
    folder
        The folder of the cluster's keys.
    make
        Returns the secret; called only if there is none yet.
    """
    place = folder / name
    if not place.exists():
        fresh = place.with_name(f"{name}.{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(make())
        try:
            # Two kernels may make it at once, and both must use the same one.
            os.link(fresh, place)
        except FileExistsError:
            pass
        except OSError:
            os.replace(fresh, place)
        fresh.unlink(missing_ok=True)
    return place
