"""Clouds: the contract of an adapter, the registry of adapters, and one folder for each cloud.

Start with `base.py`. A cloud's folder has `provisioner.py` (the contract), `errors.py`, `stock.py`,
`prices.py` and `images.py`, as far as the cloud needs them. `web/` and `pricing/` hold what clouds
share, and `scaffold.py` begins the package of a new one. Only `nbprov.model` may be imported.
"""
