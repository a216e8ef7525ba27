"""A `local` cloud for one measure: its market, its start and its end."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from nbprov.clouds.local import __main__ as command
from nbprov.clouds.local import rpc
from nbprov.clouds.local.client import DaemonClient
from nbprov.clouds.local.daemon.market import MARKET_FILE

START_SECONDS = 10.0

_MARKET = """
[[regions]]
name = "bench"
zones = [{zones}]

[[types]]
name = "bench-gpu-{count}"
accelerator = "A100"
count = {count}
vcpus = 8
memory_gib = 64
hourly = 1.0
"""

_STUCK = """
[[stock]]
zone = "{last}"
left = 1

[[faults]]
zone = "{last}"
do = "stuck"
"""

_NOTHING_LEFT = """
[[stock]]
region = "bench"
left = 0
"""


def market(places: int, *, refuses: bool, sticks: bool = False, count: int = 1) -> str:
    """Return a market of this many zones with one type and no artificial delays.

    Parameters
    ----------
    refuses
        No zone has a machine left.
    sticks
        But for the last, which has one that never comes up.
    count
        Accelerators of the type.

    Examples
    --------
    >>> "bench-001" in market(2, refuses=True)
    True
    """
    zones = [f"bench-{number:03d}" for number in range(places)]
    text = _MARKET.format(zones=", ".join(f'"{zone}"' for zone in zones), count=count)
    return (
        text
        + (_STUCK.format(last=zones[-1]) if sticks else "")
        + (_NOTHING_LEFT if refuses else "")
    )


@contextlib.contextmanager
def local_cloud(home: Path, sold: str) -> Iterator[Path]:
    """Run a local cloud with this market, and yield its state directory.

    Kernels and engines whose home is `home` use it. Its machines and its daemon end with the `with`
    block.
    """
    folder = rpc.private_dir(home / "local")
    (folder / MARKET_FILE).write_text(sold, encoding="utf-8")
    DaemonClient(folder).call("describe", timeout=START_SECONDS)
    try:
        yield folder
    finally:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = command.main(["stop", "--dir", str(folder)])
        if code:
            raise RuntimeError(f"the local cloud did not end: {said.getvalue()}")
