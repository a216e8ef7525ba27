"""Readers and writers of price files, and the rules that clean what they read.

Modules here turn files into `price_entry.PriceEntry` rows and know nothing of the column store.
They may import `nbprov.model` and the catalogue's vocabulary. Start reading at `price_files.py`,
which finds the files, then `skypilot_csv.py` and `snapshot.py`, which read them.
"""
