"""Guards: the clocks that end the machine, what counts as activity, and the end itself.

Imports `tasks/`, `gang/` and the modules beside this folder. Start reading at `guard_clocks.py`,
which is pure, then `watch.py`.
"""
