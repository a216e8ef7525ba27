"""The gang: what the agents of one cluster tell each other.

Imports `tasks/` and the modules beside this folder. Start reading at `gang.py`.
"""
