"""Filters of a candidate search: which rows of the catalogue a request may use.

They look at needs, machine sizes, places and blocks. They may import `planning.lookup`; start
reading at `features.py`.
"""
