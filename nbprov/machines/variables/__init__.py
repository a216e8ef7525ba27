"""Variables copied between this kernel and a machine's, without running anything of the machine's.

Start reading in `transfer.py`. Imports cells and remote.
"""
