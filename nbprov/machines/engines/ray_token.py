"""Give this process's Ray the token of a cluster.

Ray reads a token once and has no setting to read it again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def take_token(token: Path, auth: Mapping[str, str]) -> None:
    """Make this process's Ray use the token of a cluster.

    Ray (2.60) reads the token when it is imported and keeps it; a client that presents the token
    of an earlier cluster only times out.

    Parameters
    ----------
    token
        The file of the token.
    auth
        The variables that switch tokens on.
    """
    # This variable would win over the file, and may hold another cluster's token.
    os.environ.pop("RAY_AUTH_TOKEN", None)
    os.environ.update({**auth, "RAY_AUTH_TOKEN_PATH": str(token)})
    raylet: Any = import_module("ray._raylet")
    if hasattr(raylet, "Config"):
        raylet.Config.initialize("")
    if hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.AuthenticationTokenLoader.instance().reset_cache()
