"""CUDO Compute. Only its prices are supported so far; see `prices.py`.

Only `nbprov.model` and `nbprov.clouds` may be imported.
"""
