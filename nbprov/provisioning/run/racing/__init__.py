"""How a run races: how wide (`race_rule.py`), when another place joins (`hedging.py`, without I/O),
and how long a cloud usually takes (`usual_times.py`).
"""
