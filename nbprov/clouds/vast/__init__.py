"""Vast.ai, a market place. Only its prices are supported so far; start with `prices.py`.

Only `nbprov.model` and `nbprov.clouds` may be imported.
"""
