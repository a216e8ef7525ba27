"""A create that arrived counts as sent, though its answer could not be decrypted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cloud_creates import CREATES, log_in
from tls_double import TlsDouble

from nbprov.model.failures import Cause, CloudError, Failure


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsDouble]:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with TlsDouble(tmp_path) as made:
        log_in(monkeypatch, made.url)
        yield made


def failure(create: Callable[[str], object], server: TlsDouble) -> Failure:
    with pytest.raises(CloudError) as raised:
        create(server.url)
    return raised.value.failure


@pytest.mark.parametrize("create", CREATES)
def test_a_create_whose_answer_is_damaged_has_an_unknown_outcome(
    create: Callable[[str], object], server: TlsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(server.authority))
    assert failure(create, server).cause is Cause.UNKNOWN_OUTCOME
    (request,) = server.heard
    assert request.startswith(b"POST /")


@pytest.mark.parametrize("create", CREATES)
def test_a_create_for_a_server_that_nobody_vouches_for_is_not_sent(
    create: Callable[[str], object], server: TlsDouble
) -> None:
    assert failure(create, server).cause is Cause.TRANSIENT
    assert server.heard == []
