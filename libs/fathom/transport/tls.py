"""Certificates of one process for mutual TLS, from a folder as cert-manager mounts its Secrets.

The folder holds ``tls.crt``, ``tls.key`` and ``ca.crt``. The files are looked at again while the process runs, so that
a rotation needs no restart: new connections use the new certificate, running calls end on the old ones.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from fathom.core.config import ConfigError
from fathom.core.errors import NotReady
from fathom.core.extras import name_missing_extra

LOGGER = "fathom.tls"
SETTING, VARIABLE = "runtime.tls_dir", "FATHOM_RUNTIME_TLS_DIR"
CERTIFICATE, KEY, AUTHORITY = NAMES = ("tls.crt", "tls.key", "ca.crt")
# The kubelet writes a rotated Secret within about a minute; a look costs three calls of stat.
LOOK_S = 1.0


@dataclass(frozen=True)
class Material:
    """One state of the folder, in PEM, and the validity of its certificate in seconds since the epoch."""

    certificate: bytes
    key: bytes
    authority: bytes
    begins: float
    ends: float

    def describe_end(self) -> str:
        return datetime.fromtimestamp(self.ends, UTC).strftime("%Y-%m-%d %H:%M UTC")


class Certificates:
    """The certificates in a folder, read again when its files change."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time, look_s: float = LOOK_S) -> None:
        """Read the folder; ``clock`` returns seconds since the epoch.

        Raises ``ConfigError`` naming the file that is missing, malformed, expired or does not fit the others.
        """
        self.folder, self._clock, self._look_s = folder, clock, look_s
        # gRPC asks from threads of its own.
        self._lock = threading.Lock()
        self._state, self._material = self._stat(), self._read()
        self._looked = time.monotonic()
        self._require_valid(self._material)

    @classmethod
    def open(cls, folder: str) -> Certificates | None:
        """Return the certificates of a folder; None for no path. Raises ``ConfigError``, and ``MissingExtra``."""
        return cls(Path(folder)) if folder else None

    def current(self) -> Material:
        """Return the newest material that could be read; a folder that is being changed is read at the next look."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= self._look_s:
                self._looked = now
                self._look()
            return self._material

    def require_current(self) -> Material:
        """Return the material to connect with; raise ``NotReady`` naming the certificate when it has expired."""
        found = self.current()
        if found.ends <= self._clock():
            raise NotReady(
                f"the certificate {self.folder / CERTIFICATE} has expired on {found.describe_end()}: renew it"
            )
        return found

    def _look(self) -> None:
        try:
            state = self._stat()
            if state == self._state:
                return
            material = self._read()
            self._require_valid(material)
        except ConfigError as error:
            # The old ones serve on: half of a rotation, or a wrong file, must not end what works.
            logging.getLogger(LOGGER).warning("certificates were not taken over: %s", error.message)
            return
        self._state, self._material = state, material
        logging.getLogger(LOGGER).info("certificates taken over, valid until %s", material.describe_end())

    def _stat(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for name in NAMES:
            try:
                entry = (self.folder / name).stat()
            except OSError as error:
                raise config_error(f"{self.folder / name} cannot be read: {error.strerror}") from error
            found.append((entry.st_mtime_ns, entry.st_size, entry.st_ino))
        return tuple(found)

    def _read(self) -> Material:
        with name_missing_extra():
            from cryptography import x509
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        parts = {}
        for name in NAMES:
            try:
                parts[name] = (self.folder / name).read_bytes()
            except OSError as error:
                raise config_error(f"{self.folder / name} cannot be read: {error.strerror}") from error
        try:
            certificate = x509.load_pem_x509_certificate(parts[CERTIFICATE])
            x509.load_pem_x509_certificates(parts[AUTHORITY])
            key: Any = load_pem_private_key(parts[KEY], None)
        except (ValueError, TypeError) as error:
            raise config_error(f"{self.folder} holds a certificate or key that is no PEM: {error}") from error
        if key.public_key() != certificate.public_key():
            raise config_error(f"{self.folder / KEY} is not the key of {self.folder / CERTIFICATE}")
        return Material(parts[CERTIFICATE], parts[KEY], parts[AUTHORITY], *read_validity(parts[CERTIFICATE]))

    def _require_valid(self, material: Material) -> None:
        name, now = self.folder / CERTIFICATE, self._clock()
        if material.ends <= now:
            raise config_error(f"the certificate {name} has expired on {material.describe_end()}")
        if material.begins > now:
            begins = datetime.fromtimestamp(material.begins, UTC)
            raise config_error(f"the certificate {name} is not valid before {begins:%Y-%m-%d %H:%M UTC}")


def read_validity(pem: bytes) -> tuple[float, float]:
    """Return begin and end of a certificate in seconds since the epoch; raise ``ValueError``, and ``MissingExtra``."""
    with name_missing_extra():
        from cryptography import x509
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Return credentials of a server that shows its newest certificate and admits clients of the same authority."""
    shown = certificates.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        # Asked before each handshake; None keeps the configuration that gRPC has.
        nonlocal shown
        found = certificates.current()
        if found is shown:
            return None
        shown = found
        return make_configuration(found)

    first = make_configuration(shown)
    return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=True)


def make_configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.authority
    )


def channel_credentials(material: Material) -> grpc.ChannelCredentials:
    """Return credentials of a client, for one channel: gRPC reads them once."""
    return grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)


def load_into(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Let a TLS context show the newest certificate and trust its authority; handshakes from now on do so."""
    certificates.require_current()
    try:
        context.load_verify_locations(certificates.folder / AUTHORITY)
        context.load_cert_chain(certificates.folder / CERTIFICATE, certificates.folder / KEY)
    except OSError as error:  # ssl.SSLError is one, too
        raise config_error(f"{certificates.folder}: {error}") from error


def config_error(message: str) -> ConfigError:
    return ConfigError(f"{SETTING} ({VARIABLE}): {message}", metadata={"field": SETTING})
