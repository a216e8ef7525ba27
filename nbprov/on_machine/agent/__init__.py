"""The agent: one daemon a machine, which runs its kernels, jobs and shells and guards its bill.

It travels as one zip archive of this package (`nbprov/remote/agent/archive.py`). Modules import
only the standard library of Python 3.8 and each other, relatively. Start reading at `agent.py`,
which puts the parts together; `__main__.py` lists how the archive is run.
"""

VERSION = "1.0.0"
PROTOCOL = 1
"""Raised with every change of the frames that an agent and a client of other releases misread."""
ARCHIVE_PREFIX = "nbprov-agent-"
"""Begins the archive's name on the machine, which goes on with its hash and `.pyz`."""
