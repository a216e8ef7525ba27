"""Google credentials and project: found in files, masked, and without network requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nbprov.clouds.gcp import make
from nbprov.clouds.gcp.account import credentials
from nbprov.model.failures import Cause, CloudError

NAMES = (
    *credentials.PROJECT_VARIABLES,
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    credentials.ENDPOINT_VARIABLE,
)
USER = {
    "type": "authorized_user",
    "client_id": "id",
    "client_secret": "very-secret",
    "refresh_token": "also-secret",
}


@pytest.fixture(autouse=True)
def variables(tmp_path: Path) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in NAMES}
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ["CLOUDSDK_CONFIG"] = str(tmp_path)
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def written(folder: Path, content: object) -> None:
    (folder / "application_default_credentials.json").write_text(
        content if isinstance(content, str) else json.dumps(content)
    )


def test_without_credentials_the_next_step_is_said() -> None:
    told = make().check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.cause is Cause.CREDENTIALS
    assert "gcloud auth application-default login" in told.problem.message


def test_without_a_project_the_next_step_is_said(tmp_path: Path) -> None:
    written(tmp_path, USER)
    assert credentials.missing() == credentials.NO_PROJECT


def test_project_is_named_by_environment_then_file_then_gcloud(tmp_path: Path) -> None:
    (tmp_path / "configurations").mkdir()
    (tmp_path / "active_config").write_text("work")
    (tmp_path / "configurations" / "config_work").write_text("[core]\nproject = of-gcloud\n")
    content = {**USER, "quota_project_id": "of-quota"}
    assert credentials.project_of(os.environ, content) == "of-gcloud"
    assert credentials.project_of(os.environ, {"project_id": "of-file", **content}) == "of-file"
    os.environ["GOOGLE_CLOUD_PROJECT"] = "of-environment"
    assert credentials.project_of(os.environ, content) == "of-environment"
    del os.environ["GOOGLE_CLOUD_PROJECT"]
    (tmp_path / "active_config").write_text("gone")
    assert credentials.project_of(os.environ, content) == "of-quota"


def test_user_login_is_read_and_nothing_of_it_shown(tmp_path: Path) -> None:
    written(tmp_path, {**USER, "quota_project_id": "mine"})
    opened = credentials.open_login()
    assert (opened.project, opened.endpoint) == ("mine", credentials.ENDPOINT)
    assert opened.source == "your Google login (application_default_credentials.json)"
    assert "secret" not in repr(opened)


def test_service_account_is_masked(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    content = {
        "type": "service_account",
        "project_id": "mine",
        "client_email": "robot-of-mine@mine.iam.gserviceaccount.com",
        "private_key": pem,
        "private_key_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    written(tmp_path, content)
    opened = credentials.open_login()
    assert opened.source == (
        "service account rob…@mine.iam.gserviceaccount.com (application_default_credentials.json)"
    )
    assert "PRIVATE" not in repr(opened)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no json",
        "[]",
        {"type": "odd"},
        {"type": "authorized_user"},
        {"type": "service_account", "private_key": "top-secret"},
    ],
)
def test_file_that_cannot_be_read_is_said_without_its_content(
    tmp_path: Path, content: object
) -> None:
    os.environ["GOOGLE_CLOUD_PROJECT"] = "mine"
    written(tmp_path, content)
    with pytest.raises(CloudError) as raised:
        credentials.open_login()
    assert raised.value.failure.cause is Cause.CREDENTIALS
    assert "top-secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://compute.example.org", "compute.example.org", "ftp://x"])
def test_credentials_are_not_sent_in_the_open(tmp_path: Path, url: str) -> None:
    os.environ["GOOGLE_CLOUD_PROJECT"] = "mine"
    os.environ[credentials.ENDPOINT_VARIABLE] = url
    written(tmp_path, USER)
    with pytest.raises(CloudError, match="https") as raised:
        credentials.open_login()
    assert raised.value.failure.cause is Cause.BAD_REQUEST


def test_new_login_is_noticed(tmp_path: Path) -> None:
    cloud = make()
    assert cloud.check().problem is not None
    os.environ[credentials.ENDPOINT_VARIABLE] = "http://127.0.0.1:9"
    problem = cloud.check().problem
    assert problem is not None
    assert problem.cause is Cause.TRANSIENT


@pytest.mark.parametrize(
    "url",
    [
        "https://compute.googleapis.com",
        "https://127.0.0.1.example.org",
        "http://10.0.0.1",
        "https://private.googleapis.com",
    ],
)
def test_credentials_are_left_out_on_this_computer_alone(url: str) -> None:
    assert not credentials.is_loopback(url)


IMPORTS = """
import sys, nbprov.clouds.gcp as gcp
cloud = gcp.make()
assert not cloud.check().enabled
cloud.stock([], 1)
heavy = [m for m in sys.modules if m.startswith(("google.", "requests", "proto", "grpc"))]
assert not [m for m in heavy if m.count(".") > 1 or m == "requests"], heavy
"""


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


STALL = """
import gc, sys, threading, time
from nbprov.clouds.gcp.account.sdk import compute_library
full, gaps, done = [], [], threading.Event()
gc.callbacks.append(lambda phase, info: full.append(info["generation"]) if phase == "start" else None)
def tick():
    last = time.perf_counter()
    while not done.is_set():
        time.sleep(0.002)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
ticking = threading.Thread(target=tick)
ticking.start()
full.clear()
worker = threading.Thread(target=compute_library)
worker.start()
worker.join()
during = [generation for generation in full if generation > 0]
time.sleep(0.3)
done.set()
ticking.join()
assert "google.cloud.compute_v1" in sys.modules
assert gc.isenabled()
assert gc.get_freeze_count() == 0
print(len(during))
"""


def test_import_of_the_library_does_not_stall_other_threads() -> None:
    said = subprocess.run(
        [sys.executable, "-c", STALL], check=True, capture_output=True, text=True
    ).stdout.split()
    # Full collections cause the stall; benchmarks/measure_sdk_import.py measures the gaps.
    assert said == ["0"]
