"""What the ledger's file is like: damaged, lost, and from which instant its clock counts.

It may import the model and the runtime. Start reading at `trouble.py`.
"""
