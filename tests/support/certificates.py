"""Certificates for tests: authorities, and what they issue, as cert-manager writes it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

DAY = timedelta(days=1)


def name_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


@dataclass(frozen=True)
class Authority:
    """A certificate authority that exists for one test."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, name: str = "test authority") -> Authority:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            x509.CertificateBuilder(name_of(name), name_of(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(name, key, certificate)

    def issue(self, folder: Path, *, begins: timedelta = -DAY, ends: timedelta = DAY, name: str = "fathom") -> Path:
        """Write tls.crt, tls.key and ca.crt into a folder, valid from and to so long from now, for loopback."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = (
            x509.CertificateBuilder(name_of(self.name), name_of(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(names, critical=False)
            .add_extension(usages, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        folder.mkdir(parents=True, exist_ok=True)
        private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        for file, data in (
            ("tls.key", private),
            ("tls.crt", certificate.public_bytes(form.Encoding.PEM)),
            ("ca.crt", self.certificate.public_bytes(form.Encoding.PEM)),
        ):
            # Renamed into place, as a mounted Secret is replaced: nobody reads half of a file.
            part = folder / f".{file}"
            part.write_bytes(data)
            part.replace(folder / file)
        return folder
