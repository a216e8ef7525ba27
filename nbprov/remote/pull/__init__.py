"""Bring chosen files of a machine to this computer without overwriting what was changed here.

It may import `ssh/`, `sync/` and `on_machine`. Start reading at `pull.py`.
"""
