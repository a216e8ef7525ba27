"""Stop, start, end and rename a cluster.

Each part acts on the cluster of one controller; `transition.py` is what stop and start share.
"""
