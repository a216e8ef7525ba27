"""What runs in the daemon of the `local` cloud.

Start with `daemon.py` (the process) and `api.py` (its calls). `create.py` and
`machine_lifecycle.py` decide and run, `market.py` reads the market file, `isolation.py` and
`processes.py` end a machine's processes. `scripts/` holds what runs inside machines.
"""
