"""Files of nbprov's home whose loss would lose a machine or a price.

Start with `durable.py`.
"""
