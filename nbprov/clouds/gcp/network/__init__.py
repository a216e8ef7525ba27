"""The firewall rules of nbprov's machines.

Start with `firewall.py`. This package imports `account/` beside what the adapter imports.
"""
