"""Reads botocore's models once for each process.

Each boto3 session would read those megabytes of JSON again, and tests open hundreds of sessions.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def read_models_once() -> None:
    """Cache what botocore reads from its own files, for all sessions of this process."""
    from botocore.loaders import JSONFileLoader

    read = cache(JSONFileLoader().load_file)

    def load_file(_: Any, file_path: str) -> Any:
        return read(file_path)

    JSONFileLoader.load_file = load_file
