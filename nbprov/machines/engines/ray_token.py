"""The token of a cluster in this process's own Ray, which reads it once and has no setting to read it anew."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def take_token(token: Path, auth: Mapping[str, str]) -> None:
    """Make this process's Ray show the token of a cluster; `auth` are the variables that switch tokens on.

    Ray (2.60) takes it from the environment when it is imported, and keeps the token of the cluster
    before: a client that shows that one only times out.
    """
    # The variable would come before the file, with another cluster's token.
    os.environ.pop("RAY_AUTH_TOKEN", None)
    os.environ.update({**auth, "RAY_AUTH_TOKEN_PATH": str(token)})
    raylet: Any = import_module("ray._raylet")
    if hasattr(raylet, "Config"):
        raylet.Config.initialize("")
    if hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.AuthenticationTokenLoader.instance().reset_cache()
