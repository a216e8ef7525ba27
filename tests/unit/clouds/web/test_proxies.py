"""Proxies of this computer: no message shows a login, and a mistake in an address is named."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from typing import Any

import pytest
import requests
from cloud_creates import CREATES, log_in

from nbprov.clouds.aws.account.clients import AwsAccount
from nbprov.clouds.base import Cloud
from nbprov.clouds.gcp import errors as gcp_errors
from nbprov.clouds.web.client import HttpClient
from nbprov.clouds.web.error_text import NOBODY
from nbprov.clouds.web.proxies import BAD_PROXY, unusable_proxy, without_proxy_logins
from nbprov.machines.files.gcs import list_gcs
from nbprov.machines.files.s3 import list_s3
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.remote.download.errors import DownloadError

CLOUD = "https://127.0.0.1:10"
SECRETS = ("Sup3r", "Secret", "corpuser")
SPOKEN = importlib.util.find_spec("socks") is not None
"""Whether requests knows SOCKS proxies in this environment."""
MISTAKES = [
    ("http://corpuser:Sup3rSecret@proxy:80800", "it is no address of a proxy"),
    ("http://corpuser:Sup3rSecret@[::1", "it is no address of a proxy"),
    ("http://corpuser:Sup3r#Secret@proxy:8080", "has to be written as %2F, %3F or %23"),
    ("http://corpuser:Sup3r/Secret@proxy:8080", "has to be written as %2F, %3F or %23"),
    ("http://corpuser:Sup3r?Secret@proxy:8080", "has to be written as %2F, %3F or %23"),
    ("http://corpuser:Sup3r\u20acSecret@proxy:8080", "only letters of ASCII"),
    ("ftp://corpuser:Sup3rSecret@proxy:8080", "it has to begin with http://"),
]
SOCKS = "socks5h://corpuser:Sup3rSecret@127.0.0.1:9"
SHUT = "http://corpuser:Sup3rSecret@127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("https", "http", "all", "no"):
        for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            monkeypatch.delenv(name, raising=False)
    log_in(monkeypatch, CLOUD)
    resolve = socket.getaddrinfo

    def nowhere(host: Any, *more: Any, **named: Any) -> Any:
        if host != "127.0.0.1":
            raise socket.gaierror("no such name")
        return resolve(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)


def failure(create: Callable[[str], object]) -> Failure:
    with pytest.raises(CloudError) as raised:
        create(CLOUD)
    return raised.value.failure


def asked(url: str) -> object:
    return HttpClient(pause=lambda seconds: None).json(url)


def google_token(url: str) -> object:
    from google.auth.transport.requests import Request

    try:
        return Request()(url)
    except Exception as error:
        told = gcp_errors.failure_of_exception(error)
        assert told is not None
        raise CloudError(told) from None


def aws_answer(url: str) -> object:
    return AwsAccount().call("us-east-1", "GetCallerIdentity", "quick", service="sts")


WAYS = [asked, google_token, aws_answer]


def assert_named(told: Failure, words: str) -> None:
    assert (told.cause, told.code, told.scope) == (Cause.BAD_REQUEST, BAD_PROXY, Scope.ACCOUNT)
    assert told.message.startswith("HTTPS_PROXY cannot be used: ")
    assert words in told.message
    assert not any(secret in told.message for secret in SECRETS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("address", "words"), MISTAKES)
def test_an_address_with_a_mistake_is_refused_by_the_name_of_its_variable(
    way: Callable[[str], object], address: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    assert_named(failure(way), words)


@pytest.mark.parametrize("create", CREATES)
def test_a_create_that_no_proxy_took_leaves_no_outcome_open(
    create: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", MISTAKES[0][0])
    assert_named(failure(create), MISTAKES[0][1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.skipif(SPOKEN, reason="PySocks is installed")
def test_a_socks_proxy_without_its_package_is_named(
    way: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SOCKS)
    assert_named(failure(way), "library knows no SOCKS" if way is aws_answer else "install pysocks")


@pytest.mark.parametrize("way", WAYS)
def test_a_proxy_that_is_not_there_is_a_passing_fault_without_its_login(
    way: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SHUT)
    told = failure(way)
    assert told.cause is Cause.TRANSIENT
    assert not any(secret in told.message for secret in SECRETS)


def test_the_proxy_that_refuses_is_not_taken_for_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SHUT)
    words = "the proxy on the way to 127.0.0.1:10 could not be reached"
    assert failure(asked).message == words


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"HTTPS_PROXY": "http://a:1:1", "https_proxy": "http://b:1:1"}, "https_proxy"),
        ({"ALL_PROXY": "http://a:1:1"}, "ALL_PROXY"),
        ({"all_proxy": "http://a:1:1", "HTTP_PROXY": "http://a:1:1"}, "all_proxy"),
    ],
)
def test_the_variable_is_the_one_in_use(
    variables: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert failure(asked).message.startswith(f"{named} cannot be used: ")


def test_an_address_of_ours_with_a_mistake_is_not_the_proxys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SHUT)
    with pytest.raises(CloudError) as raised:
        asked("https://cloud:80800/")
    assert raised.value.failure.code == "bad-address"
    assert unusable_proxy(requests.exceptions.InvalidSchema("ftp")) is None
    assert unusable_proxy(UnicodeEncodeError("ascii", "a", 0, 1, "no letter")) is None


def test_a_proxy_that_was_mended_is_used_without_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = AwsAccount()

    def told() -> Failure:
        with pytest.raises(CloudError) as raised:
            account.call("us-east-1", "GetCallerIdentity", "quick", service="sts")
        return raised.value.failure

    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:80800")
    assert told().code == BAD_PROXY
    monkeypatch.setenv("HTTPS_PROXY", SHUT)
    assert told().code == "ProxyConnectionError"


@pytest.mark.parametrize(
    ("listed", "uri"), [(list_s3, "s3://bucket/path"), (list_gcs, "gs://bucket/path")]
)
@pytest.mark.parametrize(("address", "words"), [*MISTAKES, (SHUT, "")])
def test_a_bucket_behind_it_is_out_of_reach(
    listed: Callable[[str], object],
    uri: str,
    address: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(DownloadError) as raised:
        listed(uri)
    told = raised.value
    assert words in told.message
    assert ("HTTPS_PROXY cannot be used" in told.message) is (address != SHUT)
    assert not any(secret in str(told) for secret in SECRETS)


def test_an_exception_that_no_adapter_knows_shows_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", SHUT)
    for error in (ValueError(SHUT), ConnectionError(SHUT), TimeoutError(SHUT)):
        told = Cloud.classify(None, error)  # type: ignore[arg-type]
        assert "127.0.0.1:9" in told.message
        assert not any(secret in told.message for secret in SECRETS)


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "Http_Proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "words",
    [
        "Failed to connect to proxy URL: {}",
        "'corpuser:Sup3r' is not a valid host or port",
        "port='Secret'",
        "netloc 'corpuser:Sup3r#Secret@proxy' contains invalid characters",
        "Failed to parse: {}",
    ],
)
def test_a_login_is_hidden_whole_and_in_parts(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://corpuser:Sup3r#Secret@proxy:8080"
    monkeypatch.setenv(name, address)
    shown = without_proxy_logins(words.format(address))
    assert not any(secret in shown for secret in SECRETS)
    assert without_proxy_logins("the proxy is down") == "the proxy is down"


def test_an_unusable_proxy_is_no_answer_of_a_service() -> None:
    assert BAD_PROXY in NOBODY
