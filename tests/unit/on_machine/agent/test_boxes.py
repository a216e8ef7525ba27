"""What the agent does with variables on their way and with outputs beyond measure: bounded, nothing left behind, nothing that ends a kernel."""

from __future__ import annotations

import asyncio
import binascii
import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.on_machine.agent import agent as nbprov_agent
from nbprov.on_machine.agent.agent import (
    FRAME_LIMIT,
    KEPT_OWN,
    LATE_BYTES,
    SHOWN_LIMIT,
    TEXT_PIECE,
    Agent,
    Boxes,
    Cursor,
    Kernel,
    Refused,
    boottime,
    fitting,
    in_lists,
    json_size,
    pack,
    told_of,
)

BOX = "0123456789abcdef" * 2


def put(boxes: Boxes, offset: int, data: bytes, box: str = BOX) -> int:
    return int(
        boxes.put({"box": box, "offset": offset, "data": binascii.b2a_base64(data).decode()})[
            "size"
        ]
    )


def get(boxes: Boxes, offset: int, size: int) -> bytes:
    return binascii.a2b_base64(boxes.get({"box": BOX, "offset": offset, "size": size})["data"])


def test_pieces_that_come_twice_are_there_once_and_a_gap_is_told(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path)
    assert put(boxes, 0, b"abc") == 3
    assert put(boxes, 3, b"def") == 6
    assert put(boxes, 3, b"def") == 6
    assert put(boxes, 9, b"jkl") == 6  # the piece between was lost: nothing is written
    assert get(boxes, 2, 3) == b"cde"
    assert get(boxes, 0, 100) == b"abcdef"
    assert put(boxes, 0, b"x") == 1


def test_boxes_are_for_this_user_alone_and_leave_nothing(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path)
    put(boxes, 0, b"secret")
    (box,) = (tmp_path / "boxes").iterdir()
    assert box.stat().st_mode & 0o777 == 0o600
    assert box.parent.stat().st_mode & 0o777 == 0o700
    boxes.drop(box)
    boxes.drop(box)
    with pytest.raises(Refused) as raised:
        get(boxes, 0, 1)
    assert raised.value.code == "no-box"


def test_a_box_whose_notebook_is_gone_is_removed(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path)
    for age, name in (
        (0.0, "a" * 32),
        (nbprov_agent.BOX_SECONDS + 5, "b" * 32),
        (-2 * nbprov_agent.BOX_SECONDS, "c" * 32),
    ):
        put(boxes, 0, b"x", name)
        os.utime(tmp_path / "boxes" / name, (time.time() - age,) * 2)
    boxes.lapse()
    assert [path.name for path in (tmp_path / "boxes").iterdir()] == ["a" * 32]
    Boxes(tmp_path)  # the agent is started anew: so are the kernels
    assert not (tmp_path / "boxes").exists()


def test_all_boxes_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nbprov_agent, "BOXES_BYTES", 10)
    boxes = Boxes(tmp_path)
    put(boxes, 0, bytes(8))
    with pytest.raises(Refused) as raised:
        put(boxes, 0, bytes(8), "f" * 32)
    assert raised.value.code == "boxes-full"


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 32 + "\n", None]
)
def test_a_box_has_no_other_name(tmp_path: Path, name: Any) -> None:
    with pytest.raises(Refused):
        Boxes(tmp_path).put({"box": name, "offset": 0, "data": ""})


@given(st.text(max_size=200), st.integers(1, 50))
def test_text_is_passed_on_whole_in_pieces(text: str, piece: int) -> None:
    before, nbprov_agent.TEXT_PIECE = nbprov_agent.TEXT_PIECE, piece
    try:
        found = fitting("stream", {"name": "stderr", "text": text})
    finally:
        nbprov_agent.TEXT_PIECE = before
    assert "".join(content["text"] for _, content in found) == text
    assert all(
        kind == "stream" and content["name"] == "stderr" and len(content["text"]) <= piece
        for kind, content in found
    )


def test_a_piece_of_text_fits_whatever_is_in_it() -> None:
    (once, twice) = fitting("stream", {"name": "stdout", "text": "😀" * (TEXT_PIECE + 1)})
    assert json_size(once[1]) < SHOWN_LIMIT
    assert twice[1]["text"] == "😀"


def test_of_a_display_the_forms_that_fit_are_kept_and_the_others_named() -> None:
    data = {
        "text/plain": "a figure",
        "image/png": "x" * (SHOWN_LIMIT + 1),
        "text/html": "<b>small</b>",
    }
    (kept, note) = fitting(
        "display_data", {"data": data, "metadata": {}, "transient": {"display_id": "d"}}
    )
    assert kept[0] == "display_data"
    assert kept[1] == {
        "data": {"text/plain": "a figure", "text/html": "<b>small</b>"},
        "metadata": {},
        "transient": {"display_id": "d"},
    }
    assert note[0] == "stream"
    assert note[1]["text"].startswith("nbprov: the image/png of an output of 15 MB was left out")
    assert "%nbprov sync" in note[1]["text"]
    (alone,) = fitting(
        "display_data", {"data": {"image/png": "x" * (SHOWN_LIMIT + 1)}, "metadata": {}}
    )
    assert alone[0] == "stream"
    small = {"data": data, "metadata": {}}
    assert fitting("clear_output", {"wait": True}) == [("clear_output", {"wait": True})]
    del data["image/png"]
    assert fitting("display_data", small) == [("display_data", small)]


def test_an_error_beyond_measure_keeps_its_beginning_and_its_frames() -> None:
    huge = "x" * (FRAME_LIMIT + 1)
    (found,) = fitting(
        "error",
        {
            "ename": "ValueError",
            "evalue": huge,
            "traceback": ["frame 1", "frame 2", f"ValueError: {huge}"],
        },
    )
    assert found[0] == "error"
    assert json_size(found[1]) < 200_000
    assert found[1]["traceback"][:2] == ["frame 1", "frame 2"]
    assert found[1]["traceback"][2].startswith("ValueError: xxx")
    assert "67 million characters" in found[1]["evalue"]
    pack({"ev": "out", "type": "error", "content": found[1]})


def test_an_answer_to_a_question_fits() -> None:
    content = {"status": "ok", "matches": ["x" * 1000] * 20_000}
    assert told_of({"msg_type": "complete_reply", "content": content}) == {"status": "error"}
    content["matches"] = ["x"]
    assert told_of({"msg_type": "complete_reply", "content": content}) == content
    assert json.dumps(content)


async def test_a_copy_keeps_the_machine_from_being_idle(tmp_path: Path) -> None:
    agent = Agent(tmp_path, 0o022, False)
    agent.guards.tick(boottime(), time.time(), [])
    assert agent.what_is_active() == []
    put(agent.boxes, 0, b"x")
    assert agent.what_is_active() == ["variables"]
    agent.guards.tick(boottime(), time.time(), [])
    assert agent.what_is_active() == []


async def test_output_between_two_cells_is_bounded(tmp_path: Path) -> None:
    kernel = Kernel("main", Agent(tmp_path, 0o022, False))
    for _ in range(100):
        kernel.hear(
            {"ev": "out", "type": "stream", "content": {"name": "stdout", "text": "x" * 1_000_000}}
        )
    assert json_size(kernel.late) <= LATE_BYTES
    assert kernel.late
    assert kernel.late_bytes > 100_000_000


async def test_output_between_two_cells_is_for_the_next_one_that_somebody_sees(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, 0o022, False)
    kernel = Kernel("main", agent)
    kernel.host = SimpleNamespace(stdin=io.BytesIO())  # type: ignore[assignment]
    kernel.hear(
        {"ev": "out", "type": "stream", "content": {"name": "stdout", "text": "of a thread"}}
    )
    outputs = []
    for number, is_own in enumerate((True, False)):
        task = agent.new_task({"task": f"cell-{number}", "kind": "cell", "silent": is_own}, {})
        kernel.current, kernel.place = task, nbprov_agent.chosen_python()
        running = asyncio.ensure_future(kernel.run(task, {"code": "", "silent": is_own}))
        await asyncio.sleep(0)
        task.end("ok")
        await running
        outputs.append(
            [
                entry["content"]["text"]
                for entry in Cursor(task.journal, 0).read()
                if entry["k"] == "stream"
            ]
        )
    assert outputs == [[], ["of a thread"]]


@pytest.mark.parametrize("levels", [10, 300, 450, 600, 750, 900, 985])
async def test_an_output_nested_beyond_measure_ends_neither_the_kernel_nor_who_listens_to_it(
    tmp_path: Path, levels: int
) -> None:
    agent = Agent(tmp_path, 0o022, False)
    agent.hidden.add(["canary"])
    kernel = Kernel("main", agent)
    kernel.current = agent.new_task({"task": "cell", "kind": "cell"}, {})
    for kind, content in fitting(
        "display_data", {"data": {"application/json": in_lists("canary", levels)}, "metadata": {}}
    ):
        frame = json.loads(pack({"ev": "out", "type": kind, "content": content})[4:])
        kernel.hear(frame)
    kernel.hear({"ev": "done", "cell": "cell", "status": "ok"})
    entries = Cursor(kernel.current.journal, 0).read()
    assert [entry["k"] for entry in entries[1:]] == ["end"]
    assert "canary" not in json.dumps(entries)
    assert ("***" in json.dumps(entries)) or "nested too deeply" in json.dumps(entries)


async def test_ended_cells_of_our_own_go_before_those_of_people(tmp_path: Path) -> None:
    agent = Agent(tmp_path, 0o022, False)
    for number in range(3 * KEPT_OWN):
        task = agent.new_task({"task": f"own-{number}", "kind": "cell", "silent": True}, {})
        task.begin()
        task.end("ok")
        if number % KEPT_OWN == 0:
            task = agent.new_task({"task": f"cell-{number}", "kind": "cell"}, {})
            task.begin()
            task.end("ok")
    agent.prune()
    assert [name for name in agent.tasks if name.startswith("cell-")] == [
        "cell-0",
        f"cell-{KEPT_OWN}",
        f"cell-{2 * KEPT_OWN}",
    ]
    assert [name for name in agent.tasks if name.startswith("own-")] == [
        f"own-{n}" for n in range(2 * KEPT_OWN, 3 * KEPT_OWN)
    ]
