"""Look-ups in the catalogue and in the list of clouds, by name.

They may import the catalogue and `planning.filters.place_patterns`; start reading at
`name_resolution.py`.
"""
