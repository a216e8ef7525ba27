"""Downloads by a machine itself, from buckets and the web, by links that are signed here.

It may import `ssh/`, `sync/errors.py` and `on_machine`. Start reading at `download.py`.
"""
