"""Kernels: the queue of cells of each, and the host process that owns an ipykernel.

Imports `tasks/` and the modules beside this folder. `host.py` runs in a process of its own, in the
interpreter that has ipykernel. Start reading at `kernel.py`.
"""
