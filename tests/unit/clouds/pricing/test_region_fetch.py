"""Regions read in parallel, and the parsing of providers' fields."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fetch_context import Fetching

from nbprov.clouds.pricing.region_fetch import (
    MOST_IN_VAIN,
    Steps,
    each,
    endpoint,
    expect,
    find_key,
    number,
    price,
)
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import Cause, CloudError, Failure

PARTS = ["a", "b", "c", "d", "e", "f"]


def failure(cause: Cause, text: str = "why") -> CloudError:
    """An error of this cause."""
    return CloudError(Failure(cause, text))


def test_every_part_is_read_once() -> None:
    result = each([*PARTS, "a"], str.upper, Fetching({}).context)
    assert result.good == {part: part.upper() for part in PARTS}
    assert result.failed == {}


def test_what_fails_is_named_and_the_rest_is_kept() -> None:
    def read(part: str) -> str:
        if part in "be":
            raise failure(Cause.TRANSIENT, f"{part} is down")
        return part

    result = each(PARTS, read, Fetching({}).context)
    assert result.good.keys() == set("acdf")
    assert result.failed == {part: f"passing fault at the cloud: {part} is down" for part in "be"}


def test_if_all_fail_it_is_the_first_parts_error() -> None:
    def read(part: str) -> str:
        raise failure(Cause.TRANSIENT, part)

    with pytest.raises(CloudError, match="fault at the cloud: a"):
        each(PARTS, read, Fetching({}).context)


def test_a_refused_key_ends_it_for_all() -> None:
    asked: list[str] = []

    def read(part: str) -> str:
        asked.append(part)
        raise failure(Cause.CREDENTIALS)

    with pytest.raises(CloudError, match="credentials refused"):
        each(PARTS, read, Fetching({}).context, at_once=1)
    assert asked == ["a"]


def test_a_service_that_is_down_is_not_asked_for_every_part() -> None:
    asked: list[str] = []

    def read(part: str) -> str:
        asked.append(part)
        raise failure(Cause.TRANSIENT, "503")

    with pytest.raises(CloudError, match="503"):
        each(map(str, range(60)), read, Fetching({}).context, at_once=2)
    assert len(asked) <= MOST_IN_VAIN + 2


def test_parts_that_are_not_there_do_not_end_it() -> None:
    def read(part: str) -> str:
        if part != "19":
            raise failure(Cause.NOT_OFFERED)
        return part

    assert each(map(str, range(20)), read, Fetching({}).context).good == {"19": "19"}


def test_what_is_no_clouds_fault_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        each(PARTS, lambda part: 1 // 0, Fetching({}).context)


def test_no_more_at_once_than_said() -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(2)

    def read(part: str) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(60)
        with lock:
            now -= 1
        return part

    each(PARTS, read, Fetching({}).context, at_once=2)
    assert most == 2


def test_a_stop_ends_it_while_a_part_waits_for_something_else() -> None:
    fetching, never = Fetching({}), threading.Event()

    def read(part: str) -> str:
        fetching.stop.set()
        never.wait(30)
        return part

    with pytest.raises(Stopped):
        each(PARTS, read, fetching.context)
    never.set()


def test_progress_counts_the_parts_and_the_bytes() -> None:
    fetching = Fetching({})
    steps = Steps(fetching.context, 2)

    def read(part: str) -> str:
        for received in range(0, 5 << 20, 1 << 18):
            steps.seen(part)(received)
        return part

    each(["a", "b"], read, fetching.context, at_once=1, steps=steps)
    first = fetching.seen[0]
    assert (first.done, first.total, first.what) == (0, 2, "a")
    assert (fetching.seen[-1].done, fetching.seen[-1].received >> 20) == (2, 9)
    assert len(fetching.seen) == 2 + 2 * 4 + 2, "once a megabyte, and at both ends of a part"


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("0.096", 96_000),
        (2.5, 2_500_000),
        ("21.9576420000", 21_957_642),
        ("0.0000000000", None),
        (0, None),
        (-1, None),
        ("", None),
        (None, None),
        ("n/a", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_price(value: object, micros: int | None) -> None:
    assert price(value) == micros


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1,152 GiB", 1152.0),
        ("8", 8.0),
        (0.5, 0.5),
        ("NA", None),
        ("", None),
        (None, None),
        (0, None),
        (-2, None),
        ("nan", None),
        ("1e99", None),
    ],
)
def test_number(value: object, found: float | None) -> None:
    assert number(value) == found


def test_an_endpoint_is_the_providers_unless_another_is_given() -> None:
    assert endpoint(Fetching({}).context, "api", "https://api.example/") == "https://api.example"
    assert (
        endpoint(Fetching({"api": "http://127.0.0.1:9/"}).context, "api", "https://api.example")
        == "http://127.0.0.1:9"
    )


def test_expect_says_whose_answer_is_odd() -> None:
    assert expect([1], list, "the list") == [1]
    with pytest.raises(
        CloudError, match=r"the list is not as documented: \{'error': 1\}|\"\{'error': 1\}\""
    ):
        expect({"error": 1}, list, "the list")


def test_a_key_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    assert find_key(Fetching({}).context, "SOME_KEY", file=file) == ""
    file.write_text(" in-file\n")
    assert find_key(Fetching({}).context, "SOME_KEY", file=file) == "in-file"
    assert (
        find_key(
            Fetching({}).context, "SOME_KEY", file=file, inside=lambda text: text.strip().upper()
        )
        == "IN-FILE"
    )
    monkeypatch.setenv("SOME_KEY", "in-environment")
    assert find_key(Fetching({}).context, "SOME_KEY", file=file) == "in-environment"
    assert (
        find_key(Fetching({}, keys={"api_key": "given"}).context, "SOME_KEY", file=file) == "given"
    )


def test_a_key_file_that_is_no_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe\x00")
    assert find_key(Fetching({}).context, file=tmp_path / "key") == ""
