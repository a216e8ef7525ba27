"""EC2 instances: create, list, act on, and clean up after them.

Start with `submit.py`, then `listing.py` and `actions.py`. This package imports `account/` and
`network/` beside what the adapter imports.
"""
