"""JSON requests: which are tried again, which are given up, and the message for people."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from web_double import Answer, WebDouble, busy, json_answer, text_answer

from nbprov.clouds.web.client import TRIES, HttpClient, Stopped
from nbprov.model.failures import Cause, CloudError


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server."""
    with WebDouble() as double:
        yield double


@pytest.fixture
def pauses() -> list[float]:
    """Return the list of pauses that would have been slept."""
    return []


@pytest.fixture
def http(pauses: list[float]) -> HttpClient:
    """A client that does not sleep."""
    return HttpClient(pause=pauses.append)


def failing(http: HttpClient, url: str, **more: Any) -> CloudError:
    """The error of a GET."""
    with pytest.raises(CloudError) as caught:
        http.json(url, **more)
    return caught.value


def test_json_sends_parameters_and_headers_and_returns_the_value(
    web: WebDouble, http: HttpClient
) -> None:
    web.on("/sizes", json_answer({"sizes": [1, 2]}))
    assert http.json(web.url("/sizes"), params={"q": "a b&c", "n": 3}, headers={"X-One": "1"}) == {
        "sizes": [1, 2]
    }
    asked = web.asked[0]
    assert (asked.method, asked.path, asked.query, asked.headers["x-one"]) == (
        "GET",
        "/sizes",
        {"q": "a b&c", "n": "3"},
        "1",
    )
    assert asked.headers["user-agent"] == "nbprov"


def test_post_sends_json(web: WebDouble, http: HttpClient) -> None:
    web.on(lambda asked: asked.method == "POST", json_answer({"data": 1}))
    assert http.post(web.url("/graphql"), {"query": "{ a }"}, params={"k": "v"}) == {"data": 1}
    assert web.asked[0].json == {"query": "{ a }"}
    assert web.asked[0].headers["content-type"] == "application/json"


def test_post_is_tried_again_with_the_same_body(web: WebDouble, http: HttpClient) -> None:
    web.on("/q", busy(502), json_answer(5))
    assert http.post(web.url("/q"), [1]) == 5
    assert [asked.json for asked in web.asked] == [[1], [1]]


def test_basic_credentials_are_sent_as_such(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", json_answer(1))
    http.json(web.url("/a"), auth=("user", "word"))
    assert web.asked[0].headers["authorization"] == "Basic dXNlcjp3b3Jk"


def test_a_netrc_entry_never_replaces_our_own_credentials(
    web: WebDouble, http: HttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    web.on("/a", json_answer(1))
    http.json(web.url("/a"), headers={"Authorization": "Bearer mine"})
    http.json(web.url("/a"))
    assert [asked.headers.get("authorization") for asked in web.asked] == ["Bearer mine", None]


def test_cookies_are_not_kept(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", json_answer(1, headers={"Set-Cookie": "id=1; Path=/"}))
    http.json(web.url("/a"))
    http.json(web.url("/a"))
    assert "cookie" not in web.asked[1].headers


@pytest.mark.parametrize(
    "fault",
    [
        busy(429),
        busy(500),
        busy(502),
        busy(503),
        busy(504),
        Answer(hang_up=True),
        json_answer([1] * 50, cut=0),
        json_answer([1] * 50, cut=70),
        json_answer([1] * 50, chunked=True, cut=0),
        json_answer([1] * 50, chunked=True, cut=70),
        text_answer("<html>a page of a proxy</html>"),
        text_answer('{"half": '),
        text_answer("[" * 200_000),
    ],
)
def test_what_passes_is_tried_again(
    web: WebDouble, http: HttpClient, pauses: list[float], fault: Answer
) -> None:
    web.on("/a", fault, fault, json_answer([7]))
    assert http.json(web.url("/a")) == [7]
    assert pauses == [1.0, 2.0]


def test_a_short_body_that_is_json_by_chance_is_not_taken(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", Answer(body=b"12345", cut=2), json_answer(12345))
    assert http.json(web.url("/a")) == 12345


def test_five_tries_and_then_the_services_own_words(
    web: WebDouble, http: HttpClient, pauses: list[float]
) -> None:
    web.on("/a", busy(503, words="we are moving"))
    error = failing(http, web.url("/a"))
    assert len(web.asked) == TRIES == 5
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert error.failure.cause is Cause.TRANSIENT
    assert error.failure.code == "503"
    assert "answered 503 Service Unavailable: we are moving" in str(error)


def test_retry_after_in_seconds_is_kept(
    web: WebDouble, http: HttpClient, pauses: list[float]
) -> None:
    web.on("/a", busy(429, retry_after=7), busy(503, retry_after=0), json_answer(1))
    assert http.json(web.url("/a")) == 1
    assert pauses == [7.0, 0.0]


def test_retry_after_as_a_date_is_kept(
    web: WebDouble, http: HttpClient, pauses: list[float]
) -> None:
    web.on(
        "/a",
        busy(
            429, retry_after=format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
        ),
        json_answer(1),
    )
    assert http.json(web.url("/a")) == 1
    assert 30 < pauses[0] <= 40


def test_a_pause_longer_than_a_minute_is_not_waited_for(
    web: WebDouble, http: HttpClient, pauses: list[float]
) -> None:
    web.on("/a", busy(429, retry_after=3600, words="quota of the hour is used up"))
    error = failing(http, web.url("/a"))
    assert (len(web.asked), pauses) == (1, [])
    assert error.failure.cause is Cause.RATE_LIMIT
    assert error.failure.retry_after == 3600
    assert "quota of the hour is used up" in str(error)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (401, Cause.CREDENTIALS),
        (403, Cause.PERMISSION),
        (400, Cause.TRANSIENT),
        (404, Cause.TRANSIENT),
        (410, Cause.TRANSIENT),
    ],
)
def test_a_refusal_is_final_and_has_its_cause(
    web: WebDouble, http: HttpClient, pauses: list[float], status: int, cause: Cause
) -> None:
    web.on("/a", json_answer({"message": "no"}, status))
    error = failing(http, web.url("/a"))
    assert (error.failure.cause, error.failure.code, len(web.asked), pauses) == (
        cause,
        str(status),
        1,
        [],
    )


def test_no_message_repeats_a_secret(web: WebDouble, http: HttpClient) -> None:
    web.on(
        "/a",
        lambda asked: json_answer(
            {"error": f"bad: {asked.headers['authorization']} {asked.query}"}, 401
        ),
    )
    error = failing(
        http,
        web.url("/a"),
        params={"api_key": "hidden-in-params"},
        headers={"Authorization": "Bearer hidden-in-header"},
    )
    assert "hidden" not in str(error)
    assert "hidden" not in error.failure.message
    assert "•••" in str(error)


def test_an_address_is_never_shown_with_its_query(http: HttpClient) -> None:
    error = failing(http, "http://127.0.0.1:1/v1?key=hidden-here")
    assert "hidden" not in str(error)
    assert str(error) == "passing fault at the cloud: 127.0.0.1:1 refused the connection"


@pytest.mark.parametrize("url", ["prices.example/list", "ftp://127.0.0.1/x", "http://"])
def test_what_is_no_address_is_said_to_be_none(
    http: HttpClient, pauses: list[float], url: str
) -> None:
    error = failing(http, url)
    assert (error.failure.cause, pauses) == (Cause.BAD_REQUEST, [])


def test_not_json_says_how_the_answer_begins(web: WebDouble, http: HttpClient) -> None:
    web.on("/a", text_answer("<html><body>Sign in to the hotel's network</body></html>"))
    assert failing(http, web.url("/a")).failure.code == "web-page"
    web.on("/b", text_answer("see http://status.example for news"))
    error = failing(http, web.url("/b"))
    assert error.failure.code == "not-json"
    assert "see http://status" in str(error)


def test_a_network_that_wants_a_login_is_asked_twice_in_all(
    web: WebDouble, http: HttpClient, pauses: list[float]
) -> None:
    page = Answer(200, b"<!DOCTYPE html><title>Airport</title>", {"Content-Type": "text/html"})
    web.on(lambda asked: True, page)
    for path in ("/a", "/b", "/c"):
        error = failing(http, web.url(path))
        assert error.failure.code == "web-page"
        assert "does this network ask for a login?" in str(error)
    assert (web.paths(), pauses) == (["/a", "/a"], [1.0])


def test_a_host_without_a_connection_is_given_up_soon_and_for_good(
    http: HttpClient, pauses: list[float]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    for path in ("/a", "/b", "/c"):
        assert failing(http, address + path).failure.code == "unreachable"
    assert pauses == [1.0]


def test_a_host_that_had_answered_is_tried_as_often_as_any(pauses: list[float]) -> None:
    http = HttpClient(pause=pauses.append)
    with WebDouble() as web:
        web.on("/a", json_answer(1, headers={"Connection": "close"}))
        http.json(web.url("/a"))
    assert failing(http, web.url("/a")).failure.code == "unreachable"
    assert pauses == [1.0, 2.0, 4.0, 8.0]


def test_a_proxy_that_wants_a_login_is_said_to_want_one(
    web: WebDouble, http: HttpClient, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    web.on(lambda asked: True, Answer(407, b"", {"Proxy-Authenticate": "Basic"}))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", web.url())
    error = failing(http, "http://prices.example/list")
    assert (error.failure.code, pauses) == ("407", [])
    assert error.failure.message == "the proxy on the way to prices.example requires a login"


def test_a_redirect_is_followed(web: WebDouble, http: HttpClient) -> None:
    web.on("/old", Answer(301, headers={"Location": "/new"}))
    web.on("/new", json_answer(1))
    assert http.json(web.url("/old")) == 1


def test_an_answer_in_gzip_is_read(web: WebDouble, http: HttpClient) -> None:
    import gzip

    web.on("/a", Answer(body=gzip.compress(b"[1, 2]"), headers={"Content-Encoding": "gzip"}))
    assert http.json(web.url("/a")) == [1, 2]


def test_a_torn_gzip_answer_is_tried_again(web: WebDouble, http: HttpClient) -> None:
    import gzip

    body = gzip.compress(bytes(range(256)) * 40)
    web.on(
        "/a",
        Answer(body=body, headers={"Content-Encoding": "gzip"}, cut=len(body) // 2),
        json_answer(1),
    )
    assert http.json(web.url("/a")) == 1


@pytest.mark.parametrize("hold_after", [0, 5])
def test_a_stop_ends_a_wait_for_the_network(web: WebDouble, hold_after: int) -> None:
    stop, never = threading.Event(), threading.Event()
    web.on("/slow", text_answer("[1, 2, 3]", hold=never, hold_after=hold_after))
    http = HttpClient(stop=stop)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.json, web.url("/slow"))
        web.wait_for(1)
        stop.set()
        with pytest.raises(Stopped):
            waiting.result(timeout=1.0)


def test_a_stop_ends_a_pause(web: WebDouble) -> None:
    stop = threading.Event()
    web.on("/a", busy(429, retry_after=50))
    http = HttpClient(stop=stop)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.json, web.url("/a"))
        web.wait_for(1)
        stop.set()
        with pytest.raises(Stopped):
            waiting.result(timeout=1.0)
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda http, url: http.json(url),
        lambda http, url: http.post(url, 1),
        lambda http, url: list(http.lines(url)),
    ],
)
def test_nothing_is_asked_once_stopped(
    web: WebDouble, act: Callable[[HttpClient, str], object]
) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        act(HttpClient(stop=stop), web.url("/a"))
    assert web.asked == []


def test_several_threads_share_one_client(web: WebDouble, http: HttpClient) -> None:
    web.on(lambda asked: True, lambda asked: json_answer(int(asked.query["n"])))
    with ThreadPoolExecutor(8) as pool:
        assert list(
            pool.map(lambda n: http.json(web.url("/"), params={"n": n}), range(64))
        ) == list(range(64))


def test_what_is_no_fault_of_the_network_is_raised_as_it_is(http: HttpClient) -> None:
    with pytest.raises(TypeError):
        http.post("http://127.0.0.1:1/", object())
