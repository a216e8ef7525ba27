"""Values, causes, money and time: the words that all other packages share. No I/O, but for
`paths.py`, which makes folders for this user alone.

It imports nothing of ours. Start reading at `spec.py` (what is asked for), `offers.py` (what is
sold and planned), `launches.py` (what a cloud makes) and `failures.py` (why it did not).
"""
