"""A downloaded file is complete, or does not exist."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from web_double import Answer, Asked, WebDouble, busy, text_answer

from nbprov.clouds.web import response
from nbprov.clouds.web.client import HttpClient, Stopped
from nbprov.model.failures import CloudError

BODY = bytes(range(256)) * 2000


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server."""
    with WebDouble() as double:
        yield double


@pytest.fixture
def http() -> HttpClient:
    """A client that does not sleep."""
    return HttpClient(pause=lambda seconds: None)


def test_a_file_with_its_hash_and_validators(
    web: WebDouble, http: HttpClient, tmp_path: Path
) -> None:
    web.on(
        "/f",
        Answer(
            body=BODY, headers={"ETag": '"v1"', "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}
        ),
    )
    seen: list[int] = []
    done = http.download(web.url("/f"), tmp_path / "f", seen=seen.append)
    assert (tmp_path / "f").read_bytes() == BODY
    assert (done.size, done.md5) == (
        len(BODY),
        hashlib.md5(BODY, usedforsecurity=False).hexdigest(),
    )
    assert (done.etag, done.last_modified, done.unchanged) == (
        '"v1"',
        "Fri, 20 Nov 2026 00:00:00 GMT",
        False,
    )
    assert seen[-1] == len(BODY)
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


@pytest.mark.parametrize(
    "fault",
    [
        Answer(body=BODY, cut=100_000),
        Answer(body=BODY, cut=0, chunked=True),
        busy(503),
        Answer(hang_up=True),
    ],
)
def test_what_breaks_is_fetched_again(
    web: WebDouble, http: HttpClient, tmp_path: Path, fault: Answer
) -> None:
    web.on("/f", fault, Answer(body=BODY))
    http.download(web.url("/f"), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY


def test_the_old_file_stays_until_the_new_one_is_whole(
    web: WebDouble, http: HttpClient, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    web.on("/f", Answer(body=BODY, cut=100_000))
    with pytest.raises(CloudError, match="ended early"):
        http.download(web.url("/f"), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_unchanged_leaves_everything_as_it_is(
    web: WebDouble, http: HttpClient, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Answer:
        same = (
            asked.headers.get("if-none-match") == '"v1"'
            and asked.headers.get("if-modified-since") == "yesterday"
        )
        return Answer(304) if same else Answer(500)

    web.on("/f", answer)
    done = http.download(web.url("/f"), tmp_path / "f", etag='"v1"', last_modified="yesterday")
    assert done.unchanged
    assert done.etag == '"v1"'
    assert list(tmp_path.iterdir()) == []


def test_without_validators_none_are_sent(web: WebDouble, http: HttpClient, tmp_path: Path) -> None:
    web.on("/f", Answer(body=b"x"))
    http.download(web.url("/f"), tmp_path / "f")
    assert not {"if-none-match", "if-modified-since"} & web.asked[0].headers.keys()


@pytest.mark.parametrize("chunked", [False, True])
def test_more_than_the_most_is_refused(
    web: WebDouble, http: HttpClient, tmp_path: Path, chunked: bool
) -> None:
    web.on("/f", Answer(body=BODY, chunked=chunked))
    with pytest.raises(CloudError, match=r"larger than 100,000 bytes"):
        http.download(web.url("/f"), tmp_path / "f", most=100_000)
    assert list(tmp_path.iterdir()) == []
    assert len(web.asked) == 1


def test_a_refusal_leaves_no_file(web: WebDouble, http: HttpClient, tmp_path: Path) -> None:
    web.on("/f", text_answer("404: Not Found", 404))
    with pytest.raises(CloudError, match="404: Not Found"):
        http.download(web.url("/f"), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_a_stop_leaves_no_file(web: WebDouble, tmp_path: Path) -> None:
    stop, never, begun = threading.Event(), threading.Event(), threading.Event()
    web.on("/f", Answer(body=BODY, hold=never, hold_after=200_000))
    http = HttpClient(stop=stop)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            http.download, web.url("/f"), tmp_path / "f", seen=lambda size: begun.set()
        )
        assert begun.wait(60)
        stop.set()
        with pytest.raises(Stopped):
            waiting.result(timeout=1.0)
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_leave_one_whole_file(web: WebDouble, http: HttpClient, tmp_path: Path) -> None:
    web.on("/f", Answer(body=BODY))
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: http.download(web.url("/f"), tmp_path / "f"), range(4)))
    assert {one.size for one in done} == {len(BODY)}
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_server_that_drips_holds_nobody(
    http: HttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response, "PIECE_SECONDS", 0.5)
    ended = threading.Event()

    class Drips(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/f":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not ended.wait(0.02):
                self.wfile.write(b"x")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Drips)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for path in ("f", "headers"):
            with pytest.raises(CloudError, match="less than") as caught:
                http.download(f"http://127.0.0.1:{server.server_port}/{path}", tmp_path / "f")
            assert caught.value.failure.code == "slow"
        assert list(tmp_path.iterdir()) == []
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
