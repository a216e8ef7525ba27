"""The words of the field: accelerator names, instance families, places, and what people write.

Modules here are tables and pure functions over them; they read no files and may import
`nbprov.model` and the catalogue's errors. Start reading at `query_syntax.py` and
`name_matching.py`, which interpret what people write.
"""
