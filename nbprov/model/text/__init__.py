"""Texts from outside: what a cloud, a machine or a file says, as it may be shown, and the values of
variables, as a machine may be given them.

It imports nothing of ours. Start reading at `plain.py`.
"""
