"""What only the compute engines (Dask, Ray) need on a machine: their environment, and a patch.

It imports the standard library alone. Start reading at `overlay_venv.py`.
"""
