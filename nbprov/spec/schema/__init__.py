"""The fields of a spec as data: sections, documentation, and what nbprov does with each field.

It imports nothing of ours. Start reading at `registry.py`.
"""
