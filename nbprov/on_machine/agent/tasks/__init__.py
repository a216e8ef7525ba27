"""Tasks: jobs, shells and cells, with their journals, scripts and the queue of jobs.

Imports the modules beside this folder. Start reading at `task.py`, then `store.py`.
"""
