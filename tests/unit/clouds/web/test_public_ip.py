"""This computer's public address: the services, the cache, and the override."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from web_double import Answer, WebDouble, text_answer

from nbprov.clouds.web import public_ip as module
from nbprov.clouds.web.public_ip import VARIABLE, my_address, network_of
from nbprov.model.failures import Cause, CloudError


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """Yield a service that returns addresses."""
    with WebDouble() as double:
        yield double


@pytest.fixture(autouse=True)
def own_variable() -> Iterator[None]:
    """Isolate each test from others' settings and cached answers."""
    module._kept.clear()
    yield
    os.environ.pop(VARIABLE, None)
    module._kept.clear()


def test_service_is_asked_once_and_its_answer_kept(web: WebDouble) -> None:
    web.on("/ip", text_answer("203.0.113.7\n"), text_answer("203.0.113.8\n"))
    os.environ[VARIABLE] = web.url("/ip")
    assert str(my_address()) == "203.0.113.7/32"
    assert str(my_address()) == "203.0.113.7/32"
    assert len(web.asked) == 1
    assert str(my_address(fresh=True)) == "203.0.113.8/32"
    assert str(my_address()) == "203.0.113.8/32"
    assert str(my_address(kept_for=0)) == "203.0.113.8/32"
    assert len(web.asked) == 3


def test_all_who_ask_at_once_ask_one_question(web: WebDouble) -> None:
    web.on("/ip", text_answer("2001:db8::7"))
    os.environ[VARIABLE] = web.url("/ip")
    with ThreadPoolExecutor(5) as pool:
        found = set(pool.map(lambda _: str(my_address()), range(5)))
    assert found == {"2001:db8::7/128"}
    assert len(web.asked) == 1


def test_second_service_answers_where_the_first_does_not(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.on("/first", text_answer("<html>log in to the hotel's network</html>"))
    web.on("/second", text_answer("198.51.100.9"))
    monkeypatch.setattr(module, "SERVICES", (web.url("/first"), web.url("/second")))
    assert str(my_address()) == "198.51.100.9/32"


@pytest.mark.parametrize(
    ("said", "network"),
    [
        ("203.0.113.7", "203.0.113.7/32"),
        (" 203.0.113.7/24 ", "203.0.113.0/24"),
        ("2001:db8::7", "2001:db8::7/128"),
        ("2001:db8::/48", "2001:db8::/48"),
        ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ("fe80::1%eth0", "fe80::1/128"),
    ],
)
def test_variable_overrides(said: str, network: str) -> None:
    os.environ[VARIABLE] = said
    assert str(my_address(fresh=True)) == network


@pytest.mark.parametrize("said", ["here", "203.0.113.7/99", "ftp://example.org", "203.0.113"])
def test_variable_that_says_nothing_is_refused(said: str) -> None:
    os.environ[VARIABLE] = said
    with pytest.raises(CloudError, match=VARIABLE) as raised:
        my_address()
    assert raised.value.failure.cause is Cause.BAD_REQUEST


@pytest.mark.parametrize("answer", ["", "10.0.0.0/8", "0.0.0.0", "224.0.0.1", "{}", "<html>"])
def test_nonsense_from_a_service_is_no_address(web: WebDouble, answer: str) -> None:
    web.on("/ip", text_answer(answer))
    os.environ[VARIABLE] = web.url("/ip")
    with pytest.raises(CloudError, match=f"set {VARIABLE}") as raised:
        my_address()
    assert raised.value.failure.cause is Cause.TRANSIENT


def test_service_that_never_answers_is_left_in_time(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    web.on("/ip", Answer(body=b"203.0.113.7\n", hold=never))
    monkeypatch.setattr(module, "ADDRESS_SECONDS", 0.3)
    os.environ[VARIABLE] = web.url("/ip")
    began = time.monotonic()
    with pytest.raises(CloudError, match="no answer within"):
        my_address()
    assert time.monotonic() - began < 5
    never.set()


def test_failure_is_not_kept(web: WebDouble) -> None:
    web.on("/ip", text_answer("?"), text_answer("203.0.113.7"))
    os.environ[VARIABLE] = web.url("/ip")
    with pytest.raises(CloudError):
        my_address()
    assert str(my_address()) == "203.0.113.7/32"


def test_clock_set_back_does_not_keep_an_answer_for_ever(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.on("/ip", text_answer("203.0.113.7"), text_answer("203.0.113.8"))
    os.environ[VARIABLE] = web.url("/ip")
    my_address()
    past = time.time() - 86_400
    monkeypatch.setattr(module.time, "time", lambda: past)
    assert str(my_address()) == "203.0.113.8/32"


def test_names_are_no_networks() -> None:
    assert network_of("localhost") is None
