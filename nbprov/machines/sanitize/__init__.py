"""Make outputs of machines safe to show: `text` for terminals, `html` and `display_data` for pages.

Start reading in `display_data.py`. Imports nothing else of nbprov.
"""
