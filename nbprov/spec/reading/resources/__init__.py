"""Read `resources`: from its fields to the requests of a spec, in preference tiers.

Start reading at `requests.py`; `layer.py` reads one map of fields.
"""
