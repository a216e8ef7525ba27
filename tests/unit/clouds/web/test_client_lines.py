"""Large answers line by line: whole lines whatever the chunks, resumed where they broke off."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from web_double import Answer, WebDouble, busy, text_answer

from nbprov.clouds.web.client import TRIES, HttpClient, Stopped
from nbprov.model.failures import Cause, CloudError

TEXT = "".join(f'"{number}","machine {number} in Zürich"\n' for number in range(20_000))
LINES = TEXT.splitlines()


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server."""
    with WebDouble() as double:
        yield double


@pytest.fixture
def http() -> HttpClient:
    """A client that does not sleep."""
    return HttpClient(pause=lambda seconds: None)


def ranges(web: WebDouble) -> list[str | None]:
    """Return the start of each request's range."""
    return [asked.headers.get("range") for asked in web.asked]


def test_lines_come_without_their_ends(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer("one\r\ntwo\n\nfour"))
    assert list(http.lines(web.url("/a"))) == ["one", "two", "", "four"]


def test_a_mark_of_byte_order_is_no_part_of_the_first_line(
    web: WebDouble, http: HttpClient
) -> None:
    web.on("/a", Answer(body=b"\xef\xbb\xbfSKU,Price\n"))
    assert list(http.lines(web.url("/a"))) == ["SKU,Price"]


def test_an_empty_answer_has_no_lines(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer(""))
    assert list(http.lines(web.url("/a"))) == []


@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_so_far_are_told(web: WebDouble, http: HttpClient, chunked: bool) -> None:
    web.on("/a", text_answer(TEXT, chunked=chunked))
    seen: list[int] = []
    assert list(http.lines(web.url("/a"), seen=seen.append)) == LINES
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXT.encode())
    assert len(seen) > 5


def test_lines_come_before_the_answer_is_whole(web: WebDouble, http: HttpClient) -> None:
    rest = threading.Event()
    web.on("/a", text_answer(TEXT, hold=rest, hold_after=300_000))
    lines = http.lines(web.url("/a"))
    assert next(lines) == LINES[0]
    rest.set()
    assert list(lines) == LINES[1:]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_breaks_off_goes_on_from_there(
    web: WebDouble, http: HttpClient, chunked: bool
) -> None:
    whole = text_answer(TEXT, ranges=True, chunked=chunked, headers={"ETag": '"v1"'})
    web.on("/a", whole.with_(cut=300_000), whole.with_(cut=200_000), whole)
    assert list(http.lines(web.url("/a"))) == LINES
    asked = ranges(web)
    assert asked[0] is None
    assert all(one is not None and one.startswith("bytes=") for one in asked[1:])
    assert web.asked[1].headers["if-range"] == '"v1"'


@pytest.mark.parametrize("chunked", [False, True])
def test_where_parts_are_not_served_it_begins_anew_and_nothing_comes_twice(
    web: WebDouble, http: HttpClient, chunked: bool
) -> None:
    whole = text_answer(TEXT, chunked=chunked)
    web.on("/a", whole.with_(cut=300_000), whole.with_(cut=150_000), whole)
    assert list(http.lines(web.url("/a"))) == LINES


def test_a_weak_etag_is_no_validator_for_a_part(web: WebDouble, http: HttpClient) -> None:
    whole = text_answer(
        TEXT,
        ranges=True,
        headers={"ETag": 'W/"v1"', "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"},
    )
    web.on("/a", whole.with_(cut=300_000), whole)
    assert list(http.lines(web.url("/a"))) == LINES
    assert web.asked[1].headers["if-range"] == "Fri, 20 Nov 2026 00:00:00 GMT"


def test_another_document_is_never_joined_to_the_first(web: WebDouble, http: HttpClient) -> None:
    other = TEXT.replace("Zürich", "Geneva")
    web.on("/a", text_answer(TEXT, cut=300_000), text_answer(other))
    with pytest.raises(CloudError, match="changed while it was read"):
        list(http.lines(web.url("/a")))


def test_a_document_that_became_shorter_is_never_joined(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer(TEXT, cut=300_000), text_answer(TEXT[:100_000]))
    with pytest.raises(CloudError, match="changed while it was read"):
        list(http.lines(web.url("/a")))


def test_a_part_from_elsewhere_than_asked_is_refused(web: WebDouble, http: HttpClient) -> None:
    body = TEXT.encode()
    odd = Answer(206, body[10:], {"Content-Range": f"bytes 10-{len(body) - 1}/{len(body)}"})
    web.on("/a", text_answer(TEXT, cut=300_000), odd)
    with pytest.raises(CloudError, match="changed while it was read"):
        list(http.lines(web.url("/a")))


def test_a_part_that_is_not_there_is_asked_for_from_the_start(
    web: WebDouble, http: HttpClient
) -> None:
    """The body was complete, only its end was missing, so there is nothing behind it."""
    text = TEXT[:65_536]
    web.on(
        "/a",
        text_answer(text, chunked=True, cut=len(text.encode())),
        Answer(416),
        text_answer(text),
    )
    assert list(http.lines(web.url("/a"))) == text.splitlines()
    assert ranges(web)[2] is None


def test_a_part_that_is_not_there_at_the_last_try_is_an_error_and_no_end(
    web: WebDouble, http: HttpClient
) -> None:
    text = TEXT[:65_536]
    web.on(
        "/a",
        text_answer(text, chunked=True, cut=len(text.encode())),
        busy(503),
        busy(503),
        busy(503),
        Answer(416),
    )
    with pytest.raises(CloudError, match="416"):
        list(http.lines(web.url("/a")))


def test_it_is_given_up_after_five_tries(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer(TEXT, ranges=True, cut=70_000))
    with pytest.raises(CloudError) as caught:
        list(http.lines(web.url("/a")))
    assert caught.value.failure.cause is Cause.TRANSIENT
    assert "ended early" in str(caught.value)
    assert len(web.asked) == TRIES


def test_a_busy_service_is_asked_again_before_anything_came(
    web: WebDouble, http: HttpClient
) -> None:
    web.on("/a", busy(429, retry_after=1), busy(503), text_answer(TEXT))
    assert list(http.lines(web.url("/a"))) == LINES


def test_a_line_without_end_is_given_up(
    web: WebDouble, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.clouds.web.client.MOST_LINE", 200_000)
    web.on("/a", text_answer("x" * 1_000_000))
    with pytest.raises(CloudError, match="larger than 200,000 bytes"):
        list(http.lines(web.url("/a")))


def test_a_stop_ends_it_between_two_pieces(web: WebDouble) -> None:
    stop, never = threading.Event(), threading.Event()
    web.on("/a", text_answer(TEXT, hold=never, hold_after=300_000))
    lines = HttpClient(stop=stop).lines(web.url("/a"))
    assert next(lines) == LINES[0]
    stop.set()
    with pytest.raises(Stopped):
        list(lines)


def test_whoever_stops_reading_leaves_no_thread_behind(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer(TEXT * 40))
    lines = http.lines(web.url("/a"))
    assert next(lines) == LINES[0]
    lines.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "nbprov-http":
            thread.join(timeout=60)
            assert not thread.is_alive()


@settings(max_examples=40)
@given(
    text=st.text(alphabet="aä€😀\n", max_size=400),
    cuts=st.lists(st.integers(0, 900), max_size=4),
    chunked=st.booleans(),
    parts=st.booleans(),
)
def test_whatever_breaks_where_the_lines_are_the_documents(
    text: str, cuts: list[int], chunked: bool, parts: bool
) -> None:
    body = text.encode()
    whole = Answer(body=body, chunked=chunked, ranges=parts, headers={"ETag": '"x"'})
    with WebDouble() as web:
        web.on("/a", *(whole.with_(cut=cut) for cut in cuts), whole)
        expected = text.split("\n")
        if not expected[-1]:
            expected.pop()
        assert list(HttpClient(pause=lambda seconds: None).lines(web.url("/a"))) == expected
