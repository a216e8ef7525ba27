"""The AWS account: credentials, clients, quotas, and cached facts.

Start with `clients.py`; `parallel_calls.py` asks several regions at once. This package imports
only `nbprov.model`, `nbprov.clouds` and the table of errors.
"""
