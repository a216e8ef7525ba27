"""One run: from a plan to a cluster that is ready, or to the reasons why there is none.

`driver.py` runs the loop, `failover.py` decides (without I/O), `actions/` asks the clouds, and
`run_journal.py` writes to the ledger; the parts share a `RunContext`. Start at `driver.py`.
The engine, `supervision/` and `replacement/` may import this package, and not the other way round,
except for what `supervision/guard_config.py` and its like say of guards.
"""
