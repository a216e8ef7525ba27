"""Bring a folder here and one on a machine into step, over one ssh channel.

It may import `ssh/` and `on_machine`. Start reading at `sync.py`; `plan.py` decides what moves.
"""
