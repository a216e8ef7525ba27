"""What keeps an agent running: the lock, the supervisor, the standby, and the start by the machine.

Imports the modules beside this folder. Start reading at `supervisor.py`.
"""
