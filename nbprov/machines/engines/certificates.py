"""One key and certificate a cluster, for engines that can speak TLS: whoever has them may run code on it, and nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from .secret_file import secret_file

FILE = "engine.pem"
DAYS = 3650
"""A cluster that lives longer than its certificate would lose its workers; the key ends with the cluster's folder anyway."""


def certificate(folder: Path) -> Path:
    """The file with the key and the certificate of a cluster's engine, made on first use. It is its own authority, and 0600.

    Parameters
    ----------
    folder
        Where the cluster's keys are.
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
