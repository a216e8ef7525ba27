"""Secrets are blotted out of what comes in pieces, wherever it is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines import output_masking
from nbprov.machines.output_masking import masked, masker
from nbprov.model.secret import Secret
from nbprov.on_machine.agent import secret_registry
from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.masking import LEAST_SECRET, Masker, StreamMasker, ordered
from nbprov.on_machine.agent.secret_registry import SecretRegistry

letters = st.text("ab\n", min_size=1, max_size=8)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(
    st.lists(letters, max_size=4),
    st.text("ab\nx", max_size=60),
    st.lists(st.integers(0, 60), max_size=12),
)
def test_wherever_a_text_is_cut_it_is_shown_as_if_it_came_whole(
    values: list[str], text: str, places: list[int]
) -> None:
    known = ordered(values)
    whole, stream = StreamMasker(lambda: known), StreamMasker(lambda: known)
    expected = whole.add(text) + whole.end()
    assert "".join([*map(stream.add, cut(text, places)), stream.end()]) == expected
    for value in map(str.strip, values):
        assert len(value) < LEAST_SECRET or value not in expected
    if not any(len(value.strip()) >= LEAST_SECRET for value in values):
        assert expected == text


@given(
    st.text("abc", min_size=LEAST_SECRET, max_size=9),
    st.text("abc -", max_size=30),
    st.lists(st.integers(0, 60), max_size=12),
)
def test_what_is_shown_early_does_not_give_away_the_rest(
    value: str, before: str, places: list[int]
) -> None:
    stream, shown = StreamMasker(lambda: ordered([value])), ""
    for piece in cut(before + value, places):
        shown += stream.add(piece) + stream.early()
    shown += stream.end()
    assert value not in shown


@given(
    st.lists(letters, max_size=4),
    st.text("ab\nx", max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=12),
)
def test_what_is_shown_early_or_as_a_whole_has_the_same_values_masked(
    values: list[str], text: str, places: list[tuple[int, bool]]
) -> None:
    registry = SecretRegistry()
    registry.add(values)
    assert registry.values == Masker(values).values
    stream, is_early, shown = StreamMasker(lambda: registry.values), dict(places), ""
    for number, piece in enumerate(cut(text, [place for place, _ in places])):
        shown += stream.add(piece)
        shown += stream.early() if is_early.get(number) else ""
    shown += stream.end()
    assert not any(value in shown for value in registry.values)
    whole = StreamMasker(lambda: registry.values)
    assert registry.mask(text) == Masker(values)(text) == whole.add(text) + whole.end()


def test_a_token_with_a_line_end_is_found_where_it_is_printed_without() -> None:
    token = Secret("hf_abcdef\n")
    assert masker({"T": token})("token hf_abcdef; hf_abcdef\nnext") == "token ***; ***\nnext"


def test_the_agent_keeps_no_more_values_than_it_may_and_forgets_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secret_registry, "MOST_SECRETS", 3)
    monkeypatch.setattr(secret_registry, "MOST_SECRET_LETTERS", 20)
    registry = SecretRegistry()
    registry.add(["first-", "second", "abc"])
    registry.add(["third-", "first-"])
    assert registry.mask("abc second first- third-") == "abc *** *** ***"
    registry.add(["fourth"])
    assert registry.mask("second first- third- fourth") == "second *** *** ***"
    registry.add(["longer-than-that"])
    assert registry.values == ("longer-than-that",)
    with pytest.raises(RequestError):
        registry.add(["1234", "2345", "3456", "4567"])
    with pytest.raises(RequestError):
        registry.add(["x" * 21])


def test_of_a_rich_output_all_is_blotted_out_that_is_no_picture_and_no_media_type() -> None:
    registry = SecretRegistry()
    registry.add(["text", "html", "stdout", "hf_abcdef"])
    picture, vector = "data:textQUJD", "<svg>html</svg>"
    data = {
        "text/plain": "a text",
        "image/png": picture,
        "image/svg+xml": vector,
        "application/json": {"html": [1, "hf_abcdef"]},
    }
    found = registry.mask_entry(
        {
            "k": "display_data",
            "n": "text",
            "content": {"data": {**data, "image/jpeg": "hf_abcdef"}, "metadata": {}},
        }
    )
    assert found["content"]["data"] == {
        "text/plain": "a ***",
        "image/png": picture,
        "image/svg+xml": "<svg>***</svg>",
        "application/json": {"***": [1, "***"]},
        "image/jpeg": "***",
    }
    assert found["n"] == "text"
    stream = registry.mask_entry(
        {"k": "stream", "content": {"name": "stdout", "text": "to stdout"}}
    )
    assert stream["content"] == {"name": "stdout", "text": "to ***"}
    error = {
        "ename": "hf_abcdef",
        "evalue": "no hf_abcdef",
        "traceback": ["\x1b[31mhf_abcdef\x1b[0m"],
    }
    assert "hf_abc" not in str(registry.mask_entry({"k": "error", "content": error}))


def test_little_is_held_back_and_a_prompt_is_shown_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_masking, "HELD_SECONDS", 0.05)
    go = asyncio.Event()
    closed = []

    async def pieces() -> AsyncGenerator[str, None]:
        try:
            yield "continue? [y/h"  # `h` may be the first letter of the secret
            await go.wait()
            yield "f_abcd]\nhf_ab"
            await asyncio.sleep(0.2)
            yield "cd\n"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def follow() -> list[str]:
        found = []
        async for text in (following := masked(pieces(), lambda: ["hf_abcd"])):
            found.append(text)
            if text == "h":
                go.set()
            if text.endswith("***\n"):
                break
        await following.aclose()  # type: ignore[attr-defined]
        return found

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == ["continue? [y/", "h", "***]\n", "***\n"]
    assert closed == [True]


def test_a_secret_of_several_lines_and_a_beginning_that_comes_to_nothing() -> None:
    key = "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----"
    stream = StreamMasker(lambda: masker({"K": Secret(key), "PLAIN": "abc\n"}).values)
    pieces = [
        "key:\n",
        "-----BEGIN KEY-----\n",
        "abc\n",
        "def\n",
        "-----END KEY-----\n",
        "-----BEGIN KEY-----\n",
        "other\n",
    ]
    assert [stream.add(piece) for piece in pieces] == [
        "key:\n",
        "",
        "",
        "",
        "***\n",
        "",
        "-----BEGIN KEY-----\nother\n",
    ]
    stream.add("-----BEGIN")
    assert (stream.is_brief, stream.early(), stream.end()) == (False, "", "-----BEGIN")
