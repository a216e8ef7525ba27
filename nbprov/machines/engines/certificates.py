"""The key and certificate of a cluster, for engines that speak TLS.

Whoever has them may run code on the engine, and nobody else.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from .secret_file import secret_file

FILE = "engine.pem"
DAYS = 3650
"""Long enough for any cluster, which would lose its workers if the certificate expired."""


def certificate(folder: Path) -> Path:
    """Return the file (0600) with the engine's key and certificate, which is made on first use.

    The certificate is self-signed and is its own authority.

    Parameters
    ----------
    folder
        The folder of the cluster's keys.
    """
    return secret_file(folder, FILE, _made)


def _made() -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nbprov engine")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)
