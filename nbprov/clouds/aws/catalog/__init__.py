"""What EC2 sells: its public price list, the account's view of it, and GPU families.

Start with `price_list.py`, which `prices.py` in the folder above reads first. This package
imports `account/` beside what the adapter imports.
"""
