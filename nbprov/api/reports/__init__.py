"""What the ledger tells people.

`costs.py` has costs and attempts of launches, `history.py` the history, `spending.py` what was
spent by time, day and cloud, and `dashboard_data.py` the snapshot that a dashboard shows. None asks
a cloud.
"""
