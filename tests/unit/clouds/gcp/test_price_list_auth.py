"""The key to Google's price list, and the message without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gcp_billing import KEY, PROJECT, TOKEN, GcpDouble
from web_double import WebDouble, json_answer

from nbprov.clouds.gcp.account import price_list_auth
from nbprov.model.failures import Cause, CloudError


def test_without_any_key_it_says_where_one_goes(tmp_path: Path) -> None:
    said = price_list_auth.missing({}, {"CLOUDSDK_CONFIG": str(tmp_path)})
    assert "NBPROV_GCP_API_KEY" in said
    assert "gcloud auth application-default login" in said


@pytest.mark.parametrize("name", price_list_auth.KEY_VARIABLES)
def test_a_key_in_the_environment_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    assert price_list_auth.missing({}) == ""
    assert price_list_auth.open_access({}).params == {"key": KEY}


def test_the_file_that_gcloud_leaves_is_found(tmp_path: Path) -> None:
    path = tmp_path / "application_default_credentials.json"
    path.write_text("{}")
    assert price_list_auth.login_file({"CLOUDSDK_CONFIG": str(tmp_path)}) == path
    assert price_list_auth.missing({}, {"CLOUDSDK_CONFIG": str(tmp_path)}) == ""


def test_a_login_without_googles_library_is_said_to_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "application_default_credentials.json").write_text("{}")
    monkeypatch.setattr(price_list_auth, "find_spec", lambda name: None)
    assert 'pip install "nbprov[gcp]"' in price_list_auth.missing(
        {}, {"CLOUDSDK_CONFIG": str(tmp_path)}
    )


def test_a_named_file_that_is_not_there_is_no_login(tmp_path: Path) -> None:
    assert (
        price_list_auth.login_file(
            {
                "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "no.json"),
                "CLOUDSDK_CONFIG": str(tmp_path),
            }
        )
        is None
    )


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcpDouble]:
    with WebDouble() as web:
        made = GcpDouble(web)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(made.login_file(tmp_path)))
        yield made


def test_a_service_account_logs_in_and_brings_its_project(double: GcpDouble) -> None:
    opened = price_list_auth.open_access({})
    assert opened.bearer == {"Authorization": f"Bearer {TOKEN}"}
    assert (opened.headers, opened.params, opened.project) == (opened.bearer, {}, PROJECT)
    assert TOKEN not in repr(opened)


def test_the_environment_names_another_project(
    double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "other")
    assert price_list_auth.open_access({}).project == "other"


def test_a_login_that_is_refused_is_a_fault_of_credentials(double: GcpDouble) -> None:
    double.web.on(
        "/token",
        json_answer({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400),
    )
    with pytest.raises(CloudError, match="refused the credentials") as refused:
        price_list_auth.open_access({})
    assert refused.value.failure.cause is Cause.CREDENTIALS
    assert price_list_auth.open_access({"api_key": KEY}).bearer == {}


def test_a_damaged_file_is_named_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "application_default_credentials.json"
    path.write_text(json.dumps({"type": "nothing", "private_key": "-----BEGIN"}))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    with pytest.raises(CloudError) as refused:
        price_list_auth.open_access({})
    assert "application_default_credentials.json" in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_a_token_service_that_is_not_there_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebDouble() as web:
        path = GcpDouble(web).login_file(tmp_path)
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "token_uri": "http://127.0.0.1:9/token"}))
    monkeypatch.setenv(price_list_auth.FILE_VARIABLE, str(path))
    with pytest.raises(CloudError) as caught:
        price_list_auth.open_access({})
    assert (caught.value.failure.cause, caught.value.failure.code) == (
        Cause.TRANSIENT,
        "unreachable",
    )
