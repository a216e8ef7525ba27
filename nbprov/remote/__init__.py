"""Reaching a machine: keys, the start script, ssh, copying, and the agent that runs there."""
