"""How a run waits for stock: when it waits (`stock_wait.py`, without I/O), what it does between
two passes over its places (`passes.py`), and what wakes it early (`stock_wakeup.py`).
"""
