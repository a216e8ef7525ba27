"""The price differences of the last refresh, kept beside the files that it wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from nbprov.model.files import durable

from .price_diff import Differences, PriceChange, PriceKey


def write(path: Path, differences: Differences, marks: Mapping[str, str]) -> None:
    """Store the differences with the MD5 marks of the files that the refresh wrote."""
    told = {
        "marks": dict(marks),
        "changes": [[*change.key, change.before, change.after] for change in differences],
    }
    durable.write(path, gzip.compress(json.dumps(told, separators=(",", ":")).encode(), mtime=0))


def read(path: Path, marks: Mapping[str, str]) -> Differences:
    """Return the differences of the refresh that wrote these files; empty if they are not known."""
    try:
        told = json.loads(gzip.decompress(path.read_bytes()))
        if told["marks"] != dict(marks):
            return Differences(())
        width = len(PriceKey._fields)
        return Differences(
            PriceChange(PriceKey(*line[:width]), line[width], line[width + 1])
            for line in told["changes"]
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
        return Differences(())
