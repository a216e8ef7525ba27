"""The notebook variable that holds the handle of a cluster."""

from __future__ import annotations

import keyword
from typing import Any

from nbprov.api import Cluster, Run
from nbprov.notebook.terminal import say


def variable_of(name: str) -> str:
    """Return the name of the variable that holds the handle of a cluster.

    Examples
    --------
    >>> variable_of("dev"), variable_of("my-gpu.2"), variable_of("8gpus"), variable_of("class")
    ('dev', 'my_gpu_2', '_8gpus', 'class_')
    """
    made = "".join(c if c.isalnum() else "_" for c in name)
    made = f"_{made}" if made[:1].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) else made


def store_handle(shell: Any, handle: Run | Cluster, name: str) -> None:
    """Store a handle under the variable of a cluster's name, and say so where the two differ."""
    variable = variable_of(name)
    shell.user_ns[variable] = handle
    if variable != handle.name:
        say(f"the handle of {handle.name} is the variable {variable}")
