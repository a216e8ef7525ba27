"""What the kernel host does with outputs beyond measure: nothing that ends a kernel."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nbprov.on_machine.agent.framing import FRAME_LIMIT, pack
from nbprov.on_machine.agent.kernels import output_limits
from nbprov.on_machine.agent.kernels.output_limits import (
    SHOWN_LIMIT,
    TEXT_PIECE,
    json_size,
    limited,
    limited_reply,
)


@given(st.text(max_size=200), st.integers(1, 50))
def test_text_is_passed_on_whole_in_pieces(text: str, piece: int) -> None:
    before, output_limits.TEXT_PIECE = output_limits.TEXT_PIECE, piece
    try:
        found = limited("stream", {"name": "stderr", "text": text})
    finally:
        output_limits.TEXT_PIECE = before
    assert "".join(content["text"] for _, content in found) == text
    assert all(
        kind == "stream" and content["name"] == "stderr" and len(content["text"]) <= piece
        for kind, content in found
    )


def test_a_piece_of_text_fits_whatever_is_in_it() -> None:
    (once, twice) = limited("stream", {"name": "stdout", "text": "😀" * (TEXT_PIECE + 1)})
    assert json_size(once[1]) < SHOWN_LIMIT
    assert twice[1]["text"] == "😀"


def test_of_a_display_the_forms_that_fit_are_kept_and_the_others_named() -> None:
    data = {
        "text/plain": "a figure",
        "image/png": "x" * (SHOWN_LIMIT + 1),
        "text/html": "<b>small</b>",
    }
    (kept, note) = limited(
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
    (alone,) = limited(
        "display_data", {"data": {"image/png": "x" * (SHOWN_LIMIT + 1)}, "metadata": {}}
    )
    assert alone[0] == "stream"
    small = {"data": data, "metadata": {}}
    assert limited("clear_output", {"wait": True}) == [("clear_output", {"wait": True})]
    del data["image/png"]
    assert limited("display_data", small) == [("display_data", small)]


def test_an_error_beyond_measure_keeps_its_beginning_and_its_frames() -> None:
    huge = "x" * (FRAME_LIMIT + 1)
    (found,) = limited(
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
    assert limited_reply({"msg_type": "complete_reply", "content": content}) == {"status": "error"}
    content["matches"] = ["x"]
    assert limited_reply({"msg_type": "complete_reply", "content": content}) == content
    assert json.dumps(content)
