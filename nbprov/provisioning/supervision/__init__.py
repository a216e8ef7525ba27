"""Looks after clusters that are up, until they have ended.

`cloud_watcher.py` lists each cloud and hands the machines to one `ClusterController` for each live
cluster, which composes the parts that act; `lifecycle.py` has the verbs that other packages call.
It imports the ledger, the clouds and `run/`, and never the engine. Start reading at
`cluster_controller.py`.
"""
