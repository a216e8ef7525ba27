"""The cleaner of texts from outside: what a cloud, a machine or a file says, as it may be shown.

It imports nothing of ours. Start reading at `plain.py`.
"""
