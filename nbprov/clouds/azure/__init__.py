"""Microsoft Azure. Only its prices are supported so far; start with `prices.py`.

Only `nbprov.model` and `nbprov.clouds` may be imported.
"""
