"""Files that go to a cluster's machines and come back: staging, folder sync, buckets, git, outputs.

Start reading in `staging.py` for the way there and `outputs.py` for the way back. Imports
provisioning and remote.
"""
