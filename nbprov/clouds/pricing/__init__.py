"""What price fetchers share.

Start with `fetcher.py`, the contract that `prices.py` of every cloud's folder implements.
`region_fetch.py` reads several regions at once, and `gpu_names.py` translates the providers' names
of GPUs. Only `nbprov.model` and `nbprov.clouds.web` may be imported.
"""
