"""Reads clouds' listings: which machines of a cluster are there, and what follows from that.

Start reading at `listing_comparison.py`.
"""
