"""Notebook variables and secrets in a cell: filling in the first, hiding the second.

It may import `spec.yaml`. Start reading at `substitution.py` and `redaction.py`.
"""
