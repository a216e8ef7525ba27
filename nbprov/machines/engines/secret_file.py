"""A secret of a cluster's engine in a file of its keys' folder: made once, 0600."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def secret_file(folder: Path, name: str, make: Callable[[], bytes]) -> Path:
    """The file of a secret, made on first use.

    Parameters
    ----------
    folder
        Where the cluster's keys are.
    make
        Gives the secret; called only where there is none yet.
    """
    place = folder / name
    if not place.exists():
        fresh = place.with_name(f"{name}.{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(make())
        try:
            # Two kernels may come at once, and both must mean the same one.
            os.link(fresh, place)
        except FileExistsError:
            pass
        except OSError:
            os.replace(fresh, place)
        fresh.unlink(missing_ok=True)
    return place
