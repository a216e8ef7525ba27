"""Checks of the way to the cloud: encrypted, and to a server that proves who it is."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .checks import check, needs
from .subject import CloudUnderTest, own_folder

ELSEWHERE = "plain.cloud.example"
"""A host that is not this computer."""
LOOK_SECONDS = 0.1


@check
def a_server_that_does_not_prove_who_it_is_is_sent_nothing(subject: CloudUnderTest) -> None:
    needs(subject.addresses, "it names no variable with the address of its API (`addresses`)")
    heard: list[bytes] = []
    with _impostor(heard) as port, _addressed(subject, f"https://127.0.0.1:{port}"):
        told = subject.make().check()
    assert heard == [], f"a server with a certificate of its own making was sent {heard}"
    assert not told.enabled, f"a server with a certificate of its own making: {told}"


@check
def nothing_secret_is_sent_unencrypted(subject: CloudUnderTest) -> None:
    """An address with http:// is for doubles on this computer alone."""
    needs(subject.addresses, "it names no variable with the address of its API (`addresses`)")
    relay, resolve = subject.relay, socket.getaddrinfo
    port = urlsplit(os.environ[subject.addresses[0]]).port

    def here(host: Any, *more: Any, **named: Any) -> Any:
        known = ELSEWHERE in (host, host.decode() if isinstance(host, bytes) else host)
        return resolve("127.0.0.1" if known else host, *more, **named)

    with (
        pytest.MonkeyPatch.context() as patch,
        relay.noted() as sent,
        _addressed(subject, f"http://{ELSEWHERE}:{port}"),
    ):
        patch.setattr(socket, "getaddrinfo", here)
        with contextlib.suppress(Exception):
            subject.make().check()
    shown = [
        one.target
        for one in sent
        for secret in subject.secrets()
        if secret in f"{one.readable}\n{one.readable_headers}"
    ]
    assert shown == [], f"a secret went to http://{ELSEWHERE} in {shown}"


@contextlib.contextmanager
def _addressed(subject: CloudUnderTest, address: str) -> Iterator[None]:
    """Give the adapter this address for the time being."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in subject.addresses:
            path = urlsplit(os.environ[variable]).path
            patch.setenv(variable, f"{address}{path}")
        yield


@contextlib.contextmanager
def _impostor(heard: list[bytes]) -> Iterator[int]:
    """Listen with TLS and a certificate that nobody vouches for; note what is sent all the same."""
    folder = own_folder("t")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(folder))
    listener, is_over = socket.create_server(("127.0.0.1", 0)), threading.Event()
    listener.settimeout(LOOK_SECONDS)

    def serve() -> None:
        while not is_over.is_set():
            try:
                link, _ = listener.accept()
            except TimeoutError:
                continue
            link.settimeout(5)
            with contextlib.suppress(OSError), context.wrap_socket(link, server_side=True) as told:
                if said := told.recv(1 << 16):
                    heard.append(said)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        is_over.set()
        thread.join(10)
        listener.close()


def _certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that is signed by itself, with its key in one file."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "impostor.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
