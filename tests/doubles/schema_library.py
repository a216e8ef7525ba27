"""Imports jsonschema without the grammar of international addresses, which takes a second of CPU to
build and checks nothing here.
"""

from __future__ import annotations

import sys

# jsonschema goes on without a format whose package cannot be imported; None in sys.modules says
# that it cannot.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

from jsonschema import Draft202012Validator  # noqa: E402

__all__ = ["Draft202012Validator"]
