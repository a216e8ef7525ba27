"""What the ledger tells people.

`costs.py` has costs and attempts of launches, `history.py` the history, `spending.py` what was
spent by time, day and cloud, `market_report.py` what clouds answered in the last day and how old
prices are, `launch_log.py` the log that a launch wrote, and `dashboard_data.py` the snapshot that a
dashboard shows. None asks a cloud.
"""
