"""The client of the agent: it brings the archive to a machine, starts it, and talks to it.

The agent itself is `nbprov/on_machine/agent/`. It may import `ssh/`, the model and `on_machine`.
Start reading at `client.py`; `transport.py` is the channel that survives lost connections.
"""
