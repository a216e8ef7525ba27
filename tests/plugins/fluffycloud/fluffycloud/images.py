"""Which image a machine starts from.

FluffyCloud has one, with an ssh server and, on GPUs, the driver.
"""

from __future__ import annotations

LOGIN = ""
"""Who logs in: the account that runs the server. A real cloud names one, such as `ubuntu`."""
