"""The Python environment of a spec: its files, checks of its lock, and making it on all nodes.

Start reading in `environment.py`. The program that makes it is in `remote` and runs on the machine.
"""
