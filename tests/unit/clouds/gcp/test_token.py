"""Real credentials.

A service account's key, a token service, and a Compute API that gets the token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gcp_double import GcpDouble
from google.oauth2.service_account import Credentials
from web_double import Answer, WebDouble, json_answer

from nbprov.clouds.gcp import make
from nbprov.clouds.gcp.account import credentials
from nbprov.model.failures import Cause

TOKEN = "ya29.canary-token"


@pytest.fixture
def tokens() -> Iterator[WebDouble]:
    """Google's token service."""
    with WebDouble() as web:
        yield web


@pytest.fixture
def double(
    tokens: WebDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GcpDouble]:
    """Yield a Compute API that the adapter does not treat as loopback, so that it sends
    credentials.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    content = {
        "type": "service_account",
        "project_id": "nbprov-test",
        "client_email": "robot@nbprov-test.iam.gserviceaccount.com",
        "private_key": pem,
        "private_key_id": "1",
        "token_uri": tokens.url("/token"),
    }
    file = tmp_path / "key.json"
    file.write_text(json.dumps(content))
    monkeypatch.setattr(credentials, "LOOPBACK", ())
    # google-auth also asks iamcredentials.googleapis.com, in a separate thread, where a service
    # account may be used from.
    monkeypatch.setattr(
        Credentials, "_maybe_start_regional_access_boundary_refresh", lambda *_: None, raising=False
    )
    with GcpDouble() as made:
        monkeypatch.setenv("NBPROV_GCP_ENDPOINT", made.url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        yield made
        assert made.problems == []
    assert "GOOGLE_CLOUD_PROJECT" not in os.environ


def granted(seconds: int = 3600) -> Answer:
    return json_answer({"access_token": TOKEN, "expires_in": seconds, "token_type": "Bearer"})


def test_one_token_serves_all_calls_and_is_shown_nowhere(
    double: GcpDouble, tokens: WebDouble
) -> None:
    tokens.on("/token", granted())
    cloud = make()
    told = cloud.check()
    assert told.enabled
    assert told.credential == "service account rob…@nbprov-test.iam.gserviceaccount.com (key.json)"
    assert cloud.list("owner-1") == []
    assert len(tokens.asked) == 1
    check, listing = double.calls()
    assert check["bearer"] == hashlib.sha256(f"Bearer {TOKEN}".encode()).hexdigest()
    # The library signs a service account's tokens itself.
    assert listing["bearer"]
    assert TOKEN not in f"{told}{vars(cloud)}"


def test_no_login_of_a_netrc_takes_the_place_of_a_token(
    double: GcpDouble, tokens: WebDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password mine\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    tokens.on("/token", granted())
    cloud = make()
    assert cloud.check().enabled
    assert cloud.list("owner-1") == []
    login = f"Basic {base64.b64encode(b'me:mine').decode()}"
    assert [asked.headers.get("authorization") for asked in tokens.asked] == [None]
    sent = {call["bearer"] for call in double.calls()}
    assert sent.isdisjoint({"", hashlib.sha256(login.encode()).hexdigest()})


def test_token_is_renewed_once_it_has_expired(double: GcpDouble, tokens: WebDouble) -> None:
    tokens.on("/token", granted(seconds=1), granted())
    cloud = make()
    for _ in range(3):
        assert cloud.check().enabled
    assert len(tokens.asked) == 2


def test_refused_key_is_said_in_googles_words(double: GcpDouble, tokens: WebDouble) -> None:
    tokens.on(
        "/token",
        json_answer({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400),
    )
    told = make().check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.cause is Cause.CREDENTIALS
    assert "Invalid JWT Signature" in told.problem.message
    assert double.calls() == []


def test_token_service_that_does_not_answer_is_left_in_time(
    double: GcpDouble, tokens: WebDouble
) -> None:
    never = threading.Event()
    tokens.on("/token", Answer(body=b"x" * 10, hold=never))
    began = time.monotonic()
    told = make().check()
    assert time.monotonic() - began < 6.0
    never.set()
    assert told.problem is not None
    assert told.problem.cause is Cause.TRANSIENT


def test_token_that_the_api_refuses_is_a_matter_of_credentials(
    double: GcpDouble, tokens: WebDouble
) -> None:
    tokens.on("/token", granted())
    double.add_fault(call="list", do="credentials", times=-1)
    cloud = make()
    with pytest.raises(Exception, match="credentials refused") as raised:
        cloud.list("owner-1")
    assert cloud.classify(raised.value).cause is Cause.CREDENTIALS
