"""Replaces lost machines of clusters with a compute engine.

`node_loss.py` takes a lost machine out of its cluster; `node_replacer.py` decides in each round of
the watcher whether another one is asked for, and `replace_node.py` sees one replacement through.
It imports the parts of `supervision/` that know no controller. Start reading at `replace_node.py`.
"""
