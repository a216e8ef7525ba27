"""Compute Engine instances: create, list, act on, and clean up after them.

Start with `insert.py`, then `listing.py` and `actions.py`. This package imports `account/`,
`catalog/` and `network/` beside what the adapter imports.
"""
