"""Set a cluster up once its machines answer: files, Python environment, setup, engine, run.

Start reading in `cluster_setup.py`. Imports the other packages of machines.
"""
