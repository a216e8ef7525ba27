"""Plays a story inside a real kernel, which is what dies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, Any

PLAYER_FOLDER = Path(__file__).resolve().parent


def play_in_kernel(order: Path, log: IO[bytes], seconds: float) -> None:
    """Start an ipykernel, run the story in a cell, and return when the kernel is dead; one whose
    story was told is killed.

    Raises
    ------
    TimeoutError
        If it neither died nor finished in time.
    """
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    manager.start_kernel(stdout=log, stderr=log)
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        told: list[Any] = []
        code = (
            f"import json, sys; sys.path.insert(0, {str(PLAYER_FOLDER)!r})\n"
            f"import player; player.play(json.loads(open({str(order)!r}).read()))"
        )
        request = client.execute(code)
        end = time.monotonic() + seconds
        while manager.is_alive() and not told:
            if time.monotonic() > end:
                raise TimeoutError(f"the kernel neither died nor finished within {seconds:g} s")
            told = _reply(client, request)
        if told and told[0]["content"]["status"] != "ok":
            raise RuntimeError(
                "the story failed in the kernel: "
                + "\n".join(told[0]["content"].get("traceback", ()))[-800:]
            )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _reply(client: Any, request: str) -> list[Any]:
    from queue import Empty

    try:
        message = client.get_shell_msg(timeout=0.1)
    except Empty:
        return []
    return [message] if message["parent_header"].get("msg_id") == request else []
