"""The column store: price rows as mapped columns, the cache file that holds them, and queries.

May import the catalogue's sources and vocabulary and `nbprov.model`; numpy is imported only inside
functions. Start reading at `columns.py` (the format) and `select.py` (how a query becomes row
numbers); `builder.py` and `cache.py` make the store.
"""
