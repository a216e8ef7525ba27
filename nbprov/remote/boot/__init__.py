"""How a machine starts: its user data, a node's variables, and what ties a cluster's nodes.

It may import `ssh/` and `on_machine`. Start reading at `user_data.py`.
"""
