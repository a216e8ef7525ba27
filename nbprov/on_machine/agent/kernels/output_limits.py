"""Limits of what one output of a kernel may carry.

A frame that is too large, or too deeply nested, would end the kernel host, and the kernel with
all its variables. So outputs are cut before they are passed on.
"""

from __future__ import annotations

import json
from typing import Any

from ..json_types import Json
from ..tasks.journal import ENTRY_LIMIT

SHOWN_LIMIT = ENTRY_LIMIT - 64 * 1024
"""Bytes of one output, so that it is a journal entry with all that is written around it."""
DEPTH_LEFT = 200
"""Levels of nesting that an output leaves of those that JSON may have.

The frame and the entry add some, and readers have deeper stacks."""
TEXT_PIECE = 1024 * 1024
"""Characters of text passed on at once: even at twelve bytes each they are less than an entry."""
INSPECT_CHARACTERS = 1000000
"""Of what is told of a name: more than a long source file."""
VALUE_CHARACTERS = 10000
FRAME_CHARACTERS = 20000
NAME_CHARACTERS = 1000
MOST_FRAMES = 40


def json_size(value: Any) -> int:
    """Return the bytes of a value as JSON."""
    return len(json.dumps(value, separators=(",", ":")))


def in_lists(value: Any, levels: int) -> Any:
    """Return a value wrapped in so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def limited(kind: str, content: Json) -> list[tuple[str, Json]]:
    """Return the outputs that are passed on in place of one that a kernel gave."""
    if kind == "stream":
        text = content["text"]
        starts = range(0, len(text), TEXT_PIECE)
        return [(kind, {**content, "text": text[start : start + TEXT_PIECE]}) for start in starts]
    try:
        size = json_size(in_lists(content, DEPTH_LEFT)) - 2 * DEPTH_LEFT
    except RecursionError:
        return [_note("nbprov: an output was left out: it is nested too deeply\n")]
    if size <= SHOWN_LIMIT:
        return [(kind, content)]
    if kind == "error":
        return [(kind, _short_error(content))]
    data = dict(content.get("data") or {})
    left_out = []
    while data and json_size({**content, "data": data}) > SHOWN_LIMIT:
        largest = max(data, key=lambda form: json_size(data[form]))
        left_out.append(largest)
        del data[largest]
    what = "an output" if not left_out else f"the {' and '.join(left_out)} of an output"
    note = _note(
        f"nbprov: {what} of {size >> 20} MB was left out: at most {SHOWN_LIMIT >> 20} MB of one "
        "output are shown; write it to a file there and bring that with %nbprov sync\n"
    )
    return [(kind, {**content, "data": data}), note] if data else [note]


def limited_reply(message: Json) -> Json:
    """Return the answer to a question; of what is known of a name only text."""
    content: Json = message["content"]
    if message["msg_type"] != "inspect_reply":
        return content if json_size(content) <= SHOWN_LIMIT else {"status": "error"}
    text = str((content.get("data") or {}).get("text/plain") or "")[:INSPECT_CHARACTERS]
    told = {"status": content.get("status"), "found": content.get("found")}
    return {**told, "data": {"text/plain": text}}


def _note(text: str) -> tuple[str, Json]:
    return "stream", {"name": "stderr", "text": text}


def _short_error(content: Json) -> Json:
    """Return an error that is too large, with the beginning of its text."""
    name, value = str(content.get("ename"))[:NAME_CHARACTERS], str(content.get("evalue"))
    if len(value) > VALUE_CHARACTERS:
        millions = len(value) // 1000000
        value = f"{value[:VALUE_CHARACTERS]} … ({millions} million characters in all)"
    frames = [str(frame) for frame in content.get("traceback") or []]
    kept = [frame for frame in frames if len(frame) < FRAME_CHARACTERS][:MOST_FRAMES]
    return {"ename": name, "evalue": value, "traceback": [*kept, f"{name}: {value}"]}
