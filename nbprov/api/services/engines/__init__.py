"""Dask and Ray for the machines of clusters: `compute_engines.py` starts them, `engine_clients.py`
connects a notebook to them.

Start reading at `compute_engines.py`.
"""
