"""The client side of a machine: ssh, the start script, the agent's client, sync, pull, downloads.

It may import `model`, `runtime`, `clouds` and `on_machine`. Start reading at `ssh/connection.py`,
then `agent/client.py`. docs/design/remote.md has the details.
"""
