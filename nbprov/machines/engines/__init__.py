"""Compute engines (Dask and Ray) on a cluster's machines, and their clients in the notebook.

Start reading in `startup.py`. Imports provisioning and remote; nothing of api or notebook.
"""
