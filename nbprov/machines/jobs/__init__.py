"""Jobs on a cluster: submit them, list them, follow and keep their logs.

Start reading in `jobs.py`. Imports provisioning and remote.
"""
