"""Ports of doubles and relays, none of which is used twice in a process.

Adapters remember what they did at an address, such as a key that they registered there, and the
system gives a port again once it is free.
"""

from __future__ import annotations

_used: set[int] = set()


def claim(port: int) -> bool:
    """Take a port; return False if a double or relay of this process had it before."""
    is_new = port not in _used
    _used.add(port)
    return is_new
