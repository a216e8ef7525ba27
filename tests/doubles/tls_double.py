"""A server on loopback that speaks TLS, hears a whole request, and answers with a damaged record.

A record that cannot be decrypted is what a device on the way leaves of an answer, when the request
has long arrived.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAMAGED = b"\x17\x03\x03\x00\x20"
"""The header of a record of 32 bytes of data."""
SECONDS = 5.0


class TlsDouble:
    """The server.

    Attributes
    ----------
    heard
        The requests that arrived, headers and body.
    authority
        A file with the certificate, for a client that is to trust it.
    url
        The address.

    Parameters
    ----------
    folder
        Where its certificate is put.
    """

    def __init__(self, folder: Path) -> None:
        self.heard: list[bytes] = []
        self.authority = folder / "authority.pem"
        self.authority.write_bytes(_certificate())
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.authority)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._is_over = threading.Event()
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> TlsDouble:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(2 * SECONDS)
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            try:
                link, _ = self._listener.accept()
            except TimeoutError:
                continue
            link.settimeout(SECONDS)
            with contextlib.suppress(OSError):
                self._answer(self._context.wrap_socket(link, server_side=True))
            link.close()

    def _answer(self, link: ssl.SSLSocket) -> None:
        with link:
            self.heard.append(_request(link))
            # The record goes out beside the encryption, over the same connection.
            os.write(link.fileno(), DAMAGED + os.urandom(32))
            link.recv(1)


def _request(link: ssl.SSLSocket) -> bytes:
    """Read a request to the end of its body."""
    said = b""
    while True:
        head, has_body, body = said.partition(b"\r\n\r\n")
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            ),
            0,
        )
        if has_body and len(body) >= length:
            return said
        piece = link.recv(1 << 16)
        if not piece:
            raise ConnectionError("the request ended early")
        said += piece


def _certificate() -> bytes:
    """Make a key and a certificate for 127.0.0.1, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)
