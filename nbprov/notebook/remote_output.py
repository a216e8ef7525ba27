"""Publish what a machine puts out in the cell that waits for it."""

from __future__ import annotations

import concurrent.futures
import queue
import sys
from typing import Any

from nbprov.notebook.frames.frame_renderer import FrameRenderer
from nbprov.notebook.options import options_of
from nbprov.notebook.output_record import OutputRecord

TICK = 0.05
"""Seconds between two checks for an interrupt."""

MOST_MESSAGES = 400
"""The most messages that are taken in one go, so that an interrupt is seen in a flood as well."""

OutputQueue = queue.SimpleQueue[dict[str, Any] | None]
"""Kernel messages from the engine's thread; None only wakes the reader."""


def publish_until_done(
    shell: Any,
    future: concurrent.futures.Future[Any],
    outputs: OutputQueue,
    record: OutputRecord | None = None,
) -> Any:
    """Publish what comes until the work is done, and return its result. Can be interrupted.

    Parameters
    ----------
    record
        Is given what is published.
    """
    frames = FrameRenderer(options_of(shell).frames)
    future.add_done_callback(lambda _: outputs.put(None))
    while not future.done():
        publish_waiting(shell, outputs, TICK, frames, record)
    while publish_waiting(shell, outputs, 0, frames, record):
        pass
    return future.result()


def publish_waiting(
    shell: Any,
    outputs: OutputQueue,
    wait: float,
    frames: FrameRenderer | None = None,
    record: OutputRecord | None = None,
) -> bool:
    """Publish the messages that are there; return False if there were none.

    Successive texts are joined, because a page drops messages that come too fast.

    Parameters
    ----------
    frames
        Renders the frames of the cell; by default those of a cell that begins here.
    record
        Is given what is published.
    """
    frames = FrameRenderer(options_of(shell).frames) if frames is None else frames
    waiting: list[dict[str, Any]] = []
    has_any = False
    try:
        message = outputs.get(timeout=wait) if wait else outputs.get_nowait()
        has_any = True
        while True:
            if message is not None:
                _append(waiting, message)
            if len(waiting) >= MOST_MESSAGES:
                break
            message = outputs.get_nowait()
    except queue.Empty:
        pass
    for message in waiting:
        _publish(shell, message, frames, record or OutputRecord())
    return has_any


def _append(waiting: list[dict[str, Any]], message: dict[str, Any]) -> None:
    last = waiting[-1] if waiting else None
    if (
        last is None
        or not last["msg_type"] == message["msg_type"] == "stream"
        or last["content"]["name"] != message["content"]["name"]
    ):
        waiting.append(message)
        return
    text = last["content"]["text"] + message["content"]["text"]
    waiting[-1] = {"msg_type": "stream", "content": {**last["content"], "text": text}}


def _publish(
    shell: Any, message: dict[str, Any], frames: FrameRenderer, record: OutputRecord
) -> None:
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        stream = sys.stderr if content["name"] == "stderr" else sys.stdout
        stream.write(content["text"])
        stream.flush()
        record.stream(content["name"], content["text"])
    elif kind in ("display_data", "execute_result", "update_display_data"):
        data, metadata = content["data"], content.get("metadata", {})
        if "frame" in content:
            data = frames.render(data, content["frame"])
        transient, is_update = content.get("transient", {}), kind == "update_display_data"
        shell.display_pub.publish(
            data=data, metadata=metadata, transient=transient, update=is_update
        )
        record.display(data, metadata, transient.get("display_id", ""), is_update=is_update)
    elif kind == "clear_output":
        wait = content.get("wait", False)
        shell.display_pub.clear_output(wait=wait)
        record.clear(wait=wait)
    elif kind == "page":
        from IPython.core import page

        page.page(content["data"])
