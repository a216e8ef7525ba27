"""Where machines are in the network: subnets and security groups.

Start with `subnets.py`. This package imports `account/` beside what the adapter imports.
"""
