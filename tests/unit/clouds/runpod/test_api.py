"""The client of RunPod's API: one bounded request for each call, and broken answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from runpod_catalogue import KEY
from runpod_double import Double
from web_double import Answer, WebDouble, json_answer

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.runpod import api as api_module
from nbprov.clouds.runpod.account import find_access
from nbprov.clouds.runpod.api import Api
from nbprov.clouds.runpod.errors import MOST_PAUSE
from nbprov.model.failures import Cause, CloudError, Failure


@pytest.fixture(scope="module")
def server() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


@pytest.fixture
def api(server: Double) -> Api:
    server.reset()
    return Api(KeyAccess(server.url, KEY, "test"))


@pytest.fixture
def web() -> Iterator[WebDouble]:
    with WebDouble() as double:
        yield double


def failed(
    api: Api,
    method: str = "GET",
    path: str = "/v2/pods",
    *,
    seconds: float = 5.0,
    creates: bool = False,
) -> Failure:
    body = (
        {"name": "x", "image": "y", "cpu": {"id": "cpu5c", "vcpuCount": 2}}
        if method == "POST"
        else None
    )
    with pytest.raises(CloudError) as raised:
        api.call(method, path, body, seconds=seconds, creates=creates)
    assert KEY not in f"{raised.value}{raised.value.failure}"
    return raised.value.failure


@pytest.mark.parametrize(
    ("fault", "create", "look"),
    [
        ("html", Cause.UNKNOWN_OUTCOME, Cause.TRANSIENT),
        ("cut", Cause.UNKNOWN_OUTCOME, Cause.TRANSIENT),
        ("lose_answer", Cause.UNKNOWN_OUTCOME, Cause.TRANSIENT),
        ("transient", Cause.UNKNOWN_OUTCOME, Cause.TRANSIENT),
        ("rate_limit", Cause.RATE_LIMIT, Cause.RATE_LIMIT),
        ("credentials", Cause.CREDENTIALS, Cause.CREDENTIALS),
    ],
)
def test_request_that_fails_is_sent_once(
    api: Api, server: Double, fault: str, create: Cause, look: Cause
) -> None:
    server.add_fault(fault, call="createPod", seconds=7)
    server.add_fault(fault, call="listPods", seconds=7)
    told = failed(api, "POST", creates=True)
    assert (told.cause, failed(api).cause) == (create, look)
    assert told.retry_after == (7.0 if fault == "rate_limit" else None)
    assert [len(server.calls(call)) for call in ("createPod", "listPods")] == [1, 1]


@pytest.mark.parametrize(
    ("creates", "cause"), [(True, Cause.UNKNOWN_OUTCOME), (False, Cause.TRANSIENT)]
)
def test_create_that_timed_out_on_the_way_is_open(
    web: WebDouble, creates: bool, cause: Cause
) -> None:
    web.on(
        "/v2/pods",
        Answer(
            408,
            b'{"title": "Request Timeout", "status": 408, "detail": "timed out"}',
            {"Content-Type": "application/json"},
        ),
    )
    assert failed(Api(KeyAccess(web.url(""), KEY, "test")), "POST", creates=creates).cause is cause


def test_pause_that_a_service_asks_for_is_heeded_within_reason(api: Api, server: Double) -> None:
    server.add_fault("rate_limit", call="listPods", seconds=86400)
    assert failed(api).retry_after == MOST_PAUSE


def test_silence_ends_in_time_and_leaves_a_create_open(api: Api, server: Double) -> None:
    server.add_fault("slow", call="*", times=2, seconds=60)
    started = time.monotonic()
    assert failed(api, "POST", seconds=0.4, creates=True).cause is Cause.UNKNOWN_OUTCOME
    assert failed(api, seconds=0.4).cause is Cause.TRANSIENT
    assert time.monotonic() - started < 4.0


def test_service_that_is_not_there_made_nothing() -> None:
    told = failed(Api(KeyAccess("http://127.0.0.1:9", KEY, "test")), "POST", creates=True)
    assert told.cause is Cause.TRANSIENT


def test_list_that_is_not_whole_is_none(web: WebDouble) -> None:
    endless = {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": "again"}}
    lost = {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": None}}
    api = Api(KeyAccess(web.url(), KEY, "test"))
    for answer in (endless, lost, {"items": []}, ["pods"]):
        web.on("/v2/pods", json_answer(answer))
        with pytest.raises(CloudError) as raised:
            api.listed("/v2/pods", "pods", seconds=20)
        assert raised.value.failure.cause is Cause.TRANSIENT


def test_list_of_the_older_form_is_whole(web: WebDouble) -> None:
    web.on("/v2/pods", json_answer({"pods": [{"id": "a"}]}))
    assert Api(KeyAccess(web.url(), KEY, "test")).listed("/v2/pods", "pods", seconds=5) == [
        {"id": "a"}
    ]


@pytest.mark.parametrize("odd", ["odd", {"name": "no id"}, None])
def test_an_entry_that_cannot_be_told_from_others_is_an_error(web: WebDouble, odd: object) -> None:
    """What a listing leaves out counts as gone."""
    web.on("/v2/pods", json_answer({"pods": [{"id": "a"}, odd]}))
    with pytest.raises(CloudError, match="answered pods without ids"):
        Api(KeyAccess(web.url(), KEY, "test")).listed("/v2/pods", "pods", seconds=5)


@pytest.mark.parametrize("creates", [True, False])
def test_odd_success_of_a_create_is_open(web: WebDouble, creates: bool) -> None:
    api = Api(KeyAccess(web.url(), KEY, "test"))
    for body in (b"<html>log in</html>", b"not json"):
        web.on("/v2/pods", Answer(200, body))
        assert failed(api, "POST", creates=creates).cause is (
            Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
        )


def test_what_was_sent_is_not_repeated_in_a_message(web: WebDouble) -> None:
    echo = {"title": "x", "status": 422, "detail": f"bad: hidden-value and {KEY}", "errors": []}
    web.on("/v2/pods", json_answer(echo, 422))
    with pytest.raises(CloudError) as raised:
        Api(KeyAccess(web.url(), KEY, "test")).call(
            "POST", "/v2/pods", {}, seconds=5, secrets=["hidden-value"]
        )
    assert raised.value.failure.message == "bad: ••• and •••"


def test_key_is_sent_as_a_bearer_and_by_us(web: WebDouble) -> None:
    web.on("/v2/pods", json_answer({"pods": []}))
    Api(KeyAccess(web.url(), KEY, "test")).listed("/v2/pods", "pods", seconds=5)
    assert (web.asked[0].headers["authorization"], web.asked[0].headers["user-agent"]) == (
        f"Bearer {KEY}",
        "nbprov",
    )


def test_address_that_would_send_the_key_in_the_clear_is_refused() -> None:
    with pytest.raises(CloudError, match="https://"):
        find_access({"RUNPOD_API_BASE_URL": "http://runpod.example", "RUNPOD_API_KEY": KEY})
    assert (
        find_access({"RUNPOD_API_KEY": KEY, "RUNPOD_API_BASE_URL": "http://127.0.0.1:1/v2/"}).base
        == "http://127.0.0.1:1"
    )
    assert find_access({"RUNPOD_API_KEY": KEY}).is_usual
    assert KEY not in repr(find_access({"RUNPOD_API_KEY": KEY}))


def drip(seconds: float) -> Iterator[bytes]:
    """Yield a byte now and then, and never the end of a line."""
    end = time.monotonic() + seconds
    yield b'data: {"line": "one"}\n\ndata: '
    while time.monotonic() < end:
        time.sleep(0.05)
        yield b" "


def test_a_stream_that_drips_ends_in_time_and_holds_no_thread(web: WebDouble) -> None:
    web.on("/logs", Answer(body=drip(8), chunked=True))
    before = {*threading.enumerate()}
    began = time.monotonic()
    assert list(Api(KeyAccess(web.url(), KEY, "test")).events("/logs", {}, seconds=1, quiet=5)) == [
        {"line": "one"}
    ]
    assert time.monotonic() - began < 3
    while any(one.name == "nbprov-http" for one in {*threading.enumerate()} - before):
        assert time.monotonic() - began < 5, "the reader goes on"
        time.sleep(0.02)


def test_a_stream_ends_after_a_pause(web: WebDouble) -> None:
    never = threading.Event()
    body = b'data: {"line": "one"}\n: no entry\ndata: {"line": "two"}\n'
    web.on("/logs", Answer(body=body + b" ", hold=never, hold_after=len(body)))
    began = time.monotonic()
    said = list(Api(KeyAccess(web.url(), KEY, "test")).events("/logs", {}, seconds=9, quiet=0.5))
    never.set()
    assert said == [{"line": "one"}, {"line": "two"}]
    assert time.monotonic() - began < 4


def test_a_line_without_an_end_is_not_kept(web: WebDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "MOST_LINE", 1000)
    body = b'data: {"line": "one"}\ndata: ' + b"x" * 2000 + b'\ndata: {"line": "two"}\n'
    web.on("/logs", Answer(body=body))
    api = Api(KeyAccess(web.url(), KEY, "test"))
    assert list(api.events("/logs", {}, seconds=9, quiet=1)) == [{"line": "one"}]


def test_a_stream_that_is_refused_says_why(web: WebDouble) -> None:
    web.on("/logs", json_answer({"detail": f"no such pod {KEY}"}, 404))
    with pytest.raises(CloudError, match="no such pod •••"):
        list(Api(KeyAccess(web.url(), KEY, "test")).events("/logs", {}, seconds=9, quiet=1))
