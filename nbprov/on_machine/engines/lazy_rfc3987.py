"""Stands before the package `rfc3987_syntax` in the processes of Ray, and imports it when used.

Ray (2.60) imports jsonschema (4.26) in each of its dozen processes, and jsonschema imports that
package (1.1) where it finds it, as it does beside Jupyter. The package builds its grammar as it is
imported, for a check of addresses that none of the processes makes, and neither has a setting for
it: 1.1 of 1.2 s of CPU for each import of jsonschema. On two nodes that share two cores Ray was up
after 32 s in place of 53 s, with 7 s of CPU in place of 16 s. Here the package is imported once
somebody uses it, and then is as ever. Standard library only, Python 3.8 or later.
"""

from __future__ import annotations

import importlib.machinery as _machinery
import importlib.util as _util
import os as _os
import sys as _sys
import types as _types
from typing import Any as _Any

_NAME = "rfc3987_syntax"
_HERE = _os.path.dirname(_os.path.abspath(__file__))
_found = _machinery.PathFinder.find_spec(
    _NAME, [place for place in _sys.path if _os.path.abspath(place or _os.curdir) != _HERE]
)
if _found is None or _found.loader is None:
    raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)
__path__ = list(_found.submodule_search_locations or ())


def is_valid_syntax(term: str, value: str) -> _Any:
    """Call the package's own function, which is the one that jsonschema uses."""
    return _real().is_valid_syntax(term, value)


def __getattr__(name: str) -> _Any:
    if name == "__all__":
        return [word for word in vars(_real()) if not word.startswith("_")]
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_real(), name)


def _real() -> _types.ModuleType:
    known = _sys.modules.get(_NAME)
    if known is not None and known.__spec__ is _found:
        return known
    assert _found is not None
    assert _found.loader is not None
    module = _util.module_from_spec(_found)
    _sys.modules[_NAME] = module
    try:
        _found.loader.exec_module(module)
    except BaseException:
        if known is not None:
            _sys.modules[_NAME] = known
        raise
    return module
