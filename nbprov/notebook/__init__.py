"""The notebook front end of nbprov: magics, commands, completion and panels.

This is the only package that knows IPython and Jupyter; it may import every other one. Start with
`extension` (what `%load_ext nbprov` does) and `magics/magics.py`.
"""
