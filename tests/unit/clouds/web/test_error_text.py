"""Refusals of web services become a cause and a sentence."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.web.error_text import (
    MOST_WORDS,
    blotted,
    broken,
    host_of,
    refusal,
    retry_after,
    secrets_in,
    words_of,
    worth_another_try,
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            (
                '{"error": {"code": 400, "message": "API key not valid.", "status": '
                '"INVALID_ARGUMENT"}}'
            ),
            "API key not valid.",
        ),
        (
            (
                '{"error": {"code": "global/invalid-api-key", "message": "API key was invalid", '
                '"suggestion": "Check it"}}'
            ),
            "API key was invalid",
        ),
        ('{"code": 16, "message": "unauthenticated", "details": []}', "unauthenticated"),
        ('{"errors": [{"message": "one"}, {"message": "two"}]}', "one; two"),
        ('{"Error": {"Code": "429", "Message": "Too many requests"}}', "Too many requests"),
        ('{"success": false, "error": "no_such_user", "msg": "Log in"}', "no_such_user"),
        ('{"detail": "Not found"}', "Not found"),
        (
            (
                "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access &amp; more "
                "denied</Message></Error>"
            ),
            "Access & more denied",
        ),
        (
            "<html><head><title>503 Service\n Unavailable</title></head><body>x</body></html>",
            "503 Service Unavailable",
        ),
        ("<html><h1>Bad <b>Gateway</b></h1></html>", "Bad Gateway"),
        ("<html><body>nothing</body></html>", ""),
        ("Rate limit exceeded\nfor you", "Rate limit exceeded for you"),
        ('{"cut": "of', '{"cut": "of'),
        ("{}", ""),
        ("[]", ""),
        ("", ""),
    ],
)
def test_the_sentence_in_a_body(body: str, words: str) -> None:
    assert words_of(body) == words


@pytest.mark.parametrize(
    "body",
    [
        "<title>" * 100_000,
        "<title " * 100_000,
        "<title><h1></title " * 50_000,
        "<title>" + "<" * 500_000 + "</title>",
        "<h1>" + " " * 500_000,
        "[" * 500_000,
    ],
)
def test_a_page_that_is_made_to_be_slow_is_read_at_once(body: str) -> None:
    begun = time.thread_time()
    assert len(words_of(body)) <= MOST_WORDS
    assert time.thread_time() - begun < 1


def test_a_character_with_a_number_without_end_is_left_as_it_is() -> None:
    assert words_of(f"<title>&amp; &#{'9' * 5000};</title>").startswith("&amp; &#999")


@given(st.text(max_size=2000))
def test_words_are_one_printable_line_of_bounded_length(body: str) -> None:
    words = words_of(body)
    assert len(words) <= MOST_WORDS
    assert len(words.splitlines()) <= 1


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "x"]), inner)
        ),
    )
)
def test_any_json_has_words_or_none(value: object) -> None:
    import json

    assert isinstance(words_of(json.dumps(value)), str)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("Sun, 22 Nov 2026 03:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 02:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("", None),
        (None, None),
        ("９", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, now=datetime(2026, 11, 22, 3, tzinfo=UTC)) == seconds


def test_statuses_worth_another_try() -> None:
    assert [
        status
        for status in (200, 304, 400, 401, 403, 404, 429, 500, 502, 503, 504, 529)
        if worth_another_try(status)
    ] == [
        429,
        500,
        502,
        503,
        504,
        529,
    ]


def test_an_unknown_status_has_no_phrase() -> None:
    assert (
        str(refusal("http://api.example/x", 529, "busy"))
        == "passing fault at the cloud: api.example answered 529: busy"
    )


def test_the_host_of_an_address_leaves_out_who_asks_and_what() -> None:
    assert host_of("https://me:word@api.example:8443/v1?key=1") == "api.example:8443"


def test_secrets_are_found_by_their_names() -> None:
    found = secrets_in(
        {"Authorization": "Bearer abcdef123", "Accept": "application/json"},
        {"key": "xyz-xyz", "page": "1234567"},
        None,
    )
    assert found == ("abcdef123", "xyz-xyz")
    assert blotted("with abcdef123, xyz-xyz", found) == "with •••, •••"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            (
                "HTTPSConnectionPool: Max retries exceeded (Caused by NameResolutionError('Failed "
                "to resolve'))"
            ),
            "the name api.example could not be resolved",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
            "certificate of api.example could not be verified",
        ),
        ("[Errno 111] Connection refused", "api.example refused the connection"),
        ("Read timed out. (read timeout=30)", "api.example stopped answering"),
        (
            "('Connection broken: IncompleteRead(5 bytes read, 10 more expected)')",
            "the answer of api.example ended early",
        ),
        (
            "('Connection aborted.', RemoteDisconnected('Remote end closed'))",
            "closed the connection without an answer",
        ),
        ("something else\nentirely", "api.example: OSError something else entirely"),
    ],
)
def test_a_broken_connection_in_words(text: str, words: str) -> None:
    assert words in str(broken("https://api.example/v1?key=hidden", OSError(text)))
