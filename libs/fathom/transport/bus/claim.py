"""Claim-check pattern: a payload too large for the bus goes to the object store, and a reference is sent instead."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from fathom.core.errors import CorruptData, DependencyFailed, InvalidField, NotFound, PayloadTooLarge
from fathom.core.ids import sha256
from fathom.transport.store.base import ObjectStore, StoredObject

# Half of the 1 MiB that a NATS server takes by default, so that headers and larger messages of other programs fit;
# smaller payloads travel faster in the message itself.
THRESHOLD = 512 * 1024
# As large as a gRPC message may be, so that a call fits over either transport.
MAX_PAYLOAD = 32 * 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024
CLAIM_HEADER = "fathom-claim"
FAILURE_HEADER = "fathom-failure"
# What HTTP, gRPC and NATS all take as a name.
HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class ClaimCheck:
    """Seals messages before they are sent and opens them when they arrive.

    Objects are stored under ``claims/<sha256>``, so equal payloads share one. They are never deleted here, because
    other messages may hold the same claim; configure the store to expire the prefix ``claims/`` after at least the
    longest stream's retention.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def seal(self, payload: bytes, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """Return payload and headers as they are sent; a large payload is stored and replaced by a claim.

        Raises ``PayloadTooLarge``, ``InvalidField("headers")``, and ``DependencyFailed`` when the store cannot be
        reached.
        """
        checked_headers(headers)
        if len(payload) > MAX_PAYLOAD:
            raise PayloadTooLarge(len(payload), MAX_PAYLOAD)
        if len(payload) <= THRESHOLD:
            return payload, dict(headers)
        try:
            stored = await self._store.put(f"claims/{sha256(payload)}", payload)
        except TimeoutError as error:
            raise DependencyFailed("object store", "a large payload could not be stored in time") from error
        return b"", {**headers, CLAIM_HEADER: json.dumps(stored.to_json())}

    async def open(self, payload: bytes, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """Return payload and headers as they were before ``seal``.

        Raises ``CorruptData`` when the claim is malformed or its object is gone or changed, and ``DependencyFailed``
        when the store cannot be reached.
        """
        headers = dict(headers)
        claim = headers.pop(CLAIM_HEADER, None)
        if claim is None:
            return payload, headers
        stored = read_claim(claim)
        try:
            return await self._store.get(stored.key, stored.sha256), headers
        except NotFound as error:
            raise CorruptData(stored.key, "the claimed object is gone") from error
        except TimeoutError as error:
            raise DependencyFailed("object store", "a large payload could not be read in time") from error


def read_claim(text: str) -> StoredObject:
    """Parse the record in a claim header.

    Raises ``CorruptData`` when it is malformed, ``PayloadTooLarge`` when it claims more than ``MAX_PAYLOAD``.
    """
    try:
        stored = StoredObject(**json.loads(text))
        # Only a claim's own place may be read through it, whatever else lies in the store.
        if stored.key != f"claims/{stored.sha256}" or not isinstance(stored.size_bytes, int):
            raise ValueError("not a claim")
    except (ValueError, TypeError) as error:
        raise CorruptData(CLAIM_HEADER, "is no claim") from error
    if stored.size_bytes > MAX_PAYLOAD:
        raise PayloadTooLarge(stored.size_bytes, MAX_PAYLOAD)
    return stored


def checked_headers(headers: Mapping[str, str]) -> None:
    """Raise ``InvalidField("headers")`` for headers that a transport would change, split or treat as its own."""
    size = 0
    for name, value in headers.items():
        size += len(name) + len(value)
        if not HEADER_NAME.fullmatch(name):
            raise InvalidField("headers", f"{name[:80]!r} is no name of letters, digits, '_' and '-'")
        if name.lower().startswith("nats-") or name in (CLAIM_HEADER, FAILURE_HEADER):
            raise InvalidField("headers", f"{name!r} is reserved")
        if not (value.isascii() and value.isprintable()) or value != value.strip():
            raise InvalidField("headers", f"the value of {name!r} is not printable ASCII without outer spaces")
    if size > MAX_HEADER_BYTES:
        raise InvalidField("headers", f"{size:,} bytes are over the limit of {MAX_HEADER_BYTES:,}")
