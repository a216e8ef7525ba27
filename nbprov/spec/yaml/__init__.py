"""The YAML side of a cell: its tree with places, its problems and remarks, and writing YAML.

It may import the model alone. Start reading at `reader.py`, then `nodes.py`.
"""
