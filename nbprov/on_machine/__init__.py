"""Everything that runs on a machine: the agent (`agent/`), and the programs sent over ssh.

Imports only the standard library of Python 3.8 and other modules of this folder. The client side
imports the file protocol, framing and masking from here. Start reading at `agent/agent.py`; the
programs are loaded by `loader.py`.
"""
