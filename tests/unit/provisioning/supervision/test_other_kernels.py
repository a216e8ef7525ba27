"""What another kernel writes shows in this one's panels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nbprov.model.blocks import Block
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.supervision.other_kernels import OtherKernels
from nbprov.runtime.clocks import SystemClock


def test_a_block_alone_that_another_kernel_wrote_is_a_change(tmp_path: Path) -> None:
    """It is written after the launch that met it has failed."""
    ours, theirs = (
        Ledger(tmp_path / "ledger.sqlite3", SystemClock(), kernel) for kernel in ("one", "two")
    )
    connections: Any = SimpleNamespace(live={})
    seen: list[str] = []
    others = OtherKernels(ours, connections, lambda _: False, lambda: seen.append("changed"))
    others.look()
    seen.clear()
    now = SystemClock().now()
    theirs.blocks.remember(Block(cloud="local", zone="a", since=now, expires=now + 600))
    others.look()
    assert seen == ["changed"]
    others.look()
    assert seen == ["changed"], "nothing new was written"
