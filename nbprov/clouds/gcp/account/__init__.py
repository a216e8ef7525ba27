"""The Google account: credentials, clients, and the projects in use.

Start with `connection.py`. This package imports only `nbprov.model`, `nbprov.clouds`, the table
of errors and `labels.py`.
"""
