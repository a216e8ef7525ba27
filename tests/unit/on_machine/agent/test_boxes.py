"""What the agent does with variables on their way: bounded, and nothing left behind."""

from __future__ import annotations

import binascii
import os
import time
from pathlib import Path
from typing import Any

import pytest

from nbprov.on_machine.agent import boxes as boxes_module
from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.boxes import BOX_SECONDS, Boxes
from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.system import boottime

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
    boxes.drop({"box": BOX})
    boxes.drop({"box": BOX})
    with pytest.raises(RequestError) as raised:
        get(boxes, 0, 1)
    assert raised.value.code == "no-box"


def test_a_box_whose_notebook_is_gone_is_removed(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path)
    for age, name in ((0.0, "a" * 32), (BOX_SECONDS + 5, "b" * 32), (-2 * BOX_SECONDS, "c" * 32)):
        put(boxes, 0, b"x", name)
        os.utime(tmp_path / "boxes" / name, (time.time() - age,) * 2)
    boxes.drop_old()
    assert [path.name for path in (tmp_path / "boxes").iterdir()] == ["a" * 32]
    Boxes(tmp_path)  # the agent is started anew: so are the kernels
    assert not (tmp_path / "boxes").exists()


def test_all_boxes_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes_module, "BOXES_BYTES", 10)
    boxes = Boxes(tmp_path)
    put(boxes, 0, bytes(8))
    with pytest.raises(RequestError) as raised:
        put(boxes, 0, bytes(8), "f" * 32)
    assert raised.value.code == "boxes-full"


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 32 + "\n", None]
)
def test_a_box_has_no_other_name(tmp_path: Path, name: Any) -> None:
    with pytest.raises(RequestError):
        Boxes(tmp_path).put({"box": name, "offset": 0, "data": ""})


async def test_a_copy_keeps_the_machine_from_being_idle(tmp_path: Path) -> None:
    agent = Agent(tmp_path, 0o022)
    agent.guards.tick(boottime(), time.time(), [])
    assert agent.watch.what_is_active() == []
    put(agent.boxes, 0, b"x")
    assert agent.watch.what_is_active() == ["variables"]
    agent.guards.tick(boottime(), time.time(), [])
    assert agent.watch.what_is_active() == []
