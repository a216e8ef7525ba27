"""Tunnels to ports of machines that survive lost connections and stopped clusters.

Start reading in `tunnels.py`. Imports provisioning and remote.
"""
