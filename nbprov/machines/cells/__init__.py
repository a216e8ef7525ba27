"""Cells that run on a cluster's machines: their output, their notices, and cells of the past.

Start reading in `cells.py`. Imports sanitize, provisioning and remote.
"""
