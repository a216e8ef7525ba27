"""The client of the agent: brings its archive to a machine, starts it, and talks to it.

The agent itself is `nbprov/on_machine/agent/`. Start reading at `client.py`.
"""
