"""What Compute Engine sells: machine types, their parts, prices and zones.

Start with `machine_types.py`. This package imports only `nbprov.model` and `nbprov.clouds`.
"""
