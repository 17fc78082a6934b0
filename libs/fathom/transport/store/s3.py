"""Object store in a bucket of any S3 service, through minio-py in threads."""

from __future__ import annotations

import asyncio
import builtins
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import urllib3
from minio import Minio
from minio.credentials.providers import EnvAWSProvider, StaticProvider
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, FathomError, NotFound
from fathom.core.ids import sha256 as digest
from fathom.core.retry import RetryPolicy, retry
from fathom.transport.checksums import BLAKE3, SHA256, algorithm_of, digits_of, format_checksum, hash_file
from fathom.transport.store.base import (
    CHUNK_BYTES,
    UNKNOWN_TYPE,
    StoredObject,
    checked_key,
    checked_prefix,
    compare,
    make_conflict,
    verify,
    write_hashed,
)

CULPRIT = "object store"
METADATA = "x-amz-meta-"
# With three attempts an unreachable store is reported within some ten seconds; 30 s is the wait for the next bytes,
# not for the whole object.
CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 30.0
# Also the number of objects that a listing asks for at once.
CONNECTIONS = 16
RETRY = RetryPolicy(attempts=3)
# Larger objects go in parts, and appear as a whole when the last one is there. A part has to be sent within the read
# timeout: Python's sockets have one limit for all of a body, and a large one in one request fails on a slow network.
PART_BYTES, PARALLEL_PARTS = 32 * 1024**2, 3
# S3's own limits.
MIN_PART_BYTES, MAX_PARTS = 5 * 1024**2, 10_000
# S3's rules for names: 3 to 63 lower-case letters, digits, dots and hyphens.
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

R = TypeVar("R")


@dataclass(frozen=True)
class S3Target:
    """Location and credentials of a bucket. Empty keys mean ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    secure: bool
    region: str

    @classmethod
    def from_url(cls, url: str) -> S3Target:
        """Parse ``s3://KEY:SECRET@host:port/bucket?secure=false&region=us-east-1``.

        Raises ``ConfigError`` for a malformed URL.
        """
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        bucket = parts.path.strip("/")
        secure = query.pop("secure", ["true"])[-1].lower()
        region = query.pop("region", ["us-east-1"])[-1]
        try:
            valid = parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not valid or not BUCKET.fullmatch(bucket) or query or secure not in ("true", "false"):
            # The URL itself holds the secret, so it is not part of the message.
            raise ConfigError(
                "store_url: expected s3://KEY:SECRET@host:port/bucket?secure=true|false&region=NAME",
                metadata={"field": "store_url"},
            )
        return cls(
            parts.netloc.rpartition("@")[2],
            bucket,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            secure == "true",
            region,
        )


class S3Store:
    """An ``ObjectStore`` in one existing bucket.

    The checksum is kept in the object's user metadata. For an object that another program stored without it, ``head``
    and ``list`` read the object once to compute it.
    """

    def __init__(self, target: S3Target, *, policy: RetryPolicy = RETRY) -> None:
        self._bucket, self._retry = target.bucket, policy
        # Retries are this class's own, so that their number and their time stand in one place.
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            maxsize=CONNECTIONS,
            retries=urllib3.Retry(0, redirect=0, raise_on_status=False),
        )
        self._client = Minio(
            target.endpoint,
            credentials=StaticProvider(target.access_key, target.secret_key) if target.access_key else EnvAWSProvider(),
            secure=target.secure,
            region=target.region,
            http_client=self._http,
        )

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        checked_key(key)
        data = bytes(data)
        return await self._run(key, lambda: self._put(key, data, content_type))

    async def create(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        checked_key(key)
        data = bytes(data)
        return await self._run(key, lambda: self._create(key, data, content_type))

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        checked_key(key)
        return await self._run(key, lambda: self._get(key, checksum))

    async def put_file(self, key: str, path: Path, checksum: str = "", *, is_given: bool = False) -> StoredObject:
        checked_key(key)
        return await self._run(key, lambda: self._put_file(key, path, checksum))

    async def get_file(self, key: str, path: Path, checksum: str | None = None) -> StoredObject:
        checked_key(key)
        return await self._run(key, lambda: self._get_file(key, path, checksum))

    async def head(self, key: str) -> StoredObject | None:
        checked_key(key)
        try:
            return await self._run(key, lambda: self._head(key))
        except NotFound:
            return None

    async def list(self, prefix: str) -> builtins.list[StoredObject]:
        checked_prefix(prefix)
        keys = await self.keys(prefix)
        # Listing gives no user metadata, so each object is asked for its own.
        slots = asyncio.Semaphore(CONNECTIONS)

        async def head(key: str) -> StoredObject | None:
            async with slots:
                return await self.head(key)

        found = await asyncio.gather(*(head(key) for key in keys))
        return [stored for stored in found if stored is not None]

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        checked_prefix(prefix)
        return await self._run(prefix, lambda: self._keys(prefix, after, limit))

    async def delete(self, key: str) -> None:
        checked_key(key)
        try:
            await self._run(key, lambda: self._client.remove_object(self._bucket, key))
        except NotFound:
            return

    async def close(self) -> None:
        """Close idle connections."""
        self._http.clear()

    def _put(self, key: str, data: bytes, content_type: str) -> StoredObject:
        stored = StoredObject(key, len(data), digest(data), content_type)
        return self._send(stored, io.BytesIO(data))

    def _put_file(self, key: str, path: Path, checksum: str) -> StoredObject:
        size = path.stat().st_size
        stored = StoredObject.of(key, size, checksum or hash_file(path))
        with path.open("rb") as file:
            return self._send(stored, file)

    def _send(self, stored: StoredObject, data: BinaryIO) -> StoredObject:
        self._client.put_object(
            self._bucket,
            stored.key,
            data,
            stored.size_bytes,
            content_type=stored.content_type,
            metadata={algorithm_of(stored.checksum): digits_of(stored.checksum)},
            part_size=max(PART_BYTES, MIN_PART_BYTES, -(-stored.size_bytes // MAX_PARTS)),
            num_parallel_uploads=PARALLEL_PARTS,
        )
        return stored

    def _create(self, key: str, data: bytes, content_type: str) -> StoredObject:
        stored = StoredObject(key, len(data), digest(data), content_type)
        headers: dict[str, str | list[str] | tuple[str]] = {
            "If-None-Match": "*",
            "Content-Type": content_type,
            f"{METADATA}{SHA256}": stored.sha256,
        }
        # Looked at before and after, too: a service that does not know the condition would write over the first one.
        if not self._is_here(stored):
            try:
                # minio-py has no public way to send a condition.
                self._client._put_object(self._bucket, key, data, headers)
            except S3Error as error:
                # 412, or 409 of AWS when two writers come at the same moment.
                if error.code not in ("PreconditionFailed", "ConditionalRequestConflict"):
                    raise
            self._is_here(stored)
        return stored

    def _is_here(self, stored: StoredObject) -> bool:
        """Return whether these bytes are stored; raise ``Conflict`` when others are."""
        try:
            found = self._head(stored.key)
        except S3Error as error:
            if error.code in ("NoSuchKey", "NoSuchObject"):
                return False
            raise
        if found.checksum != stored.checksum:
            raise make_conflict(stored.key)
        return True

    def _get(self, key: str, checksum: str | None) -> bytes:
        response = self._client.get_object(self._bucket, key)
        try:
            data = response.read()
            recorded = read_checksum(response.headers)
        finally:
            response.close()
            # Without it the connection would not go back to the pool, and sixteen reads would use it up.
            response.release_conn()
        return verify(key, data, recorded, checksum)

    def _get_file(self, key: str, path: Path, checksum: str | None) -> StoredObject:
        response = self._client.get_object(self._bucket, key)
        try:
            recorded = read_checksum(response.headers)
            algorithm = algorithm_of(checksum or recorded or "")
            size, actual = write_hashed(response.stream(CHUNK_BYTES), path, algorithm)
            content_type = response.headers.get("content-type") or UNKNOWN_TYPE
        finally:
            response.close()
            response.release_conn()
        compare(key, actual, recorded, checksum)
        return StoredObject.of(key, size, recorded or actual, content_type)

    def _head(self, key: str) -> StoredObject:
        found = self._client.stat_object(self._bucket, key)
        checksum = read_checksum(found.metadata or {}) or digest(self._get(key, None))
        return StoredObject.of(key, found.size or 0, checksum, found.content_type or UNKNOWN_TYPE)

    def _keys(self, prefix: str, after: str, limit: int) -> builtins.list[str]:
        # Services answer with pages of up to 1,000 sorted keys; minio-py asks for the next one when it is read.
        found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True, start_after=after or None)
        names = (item.object_name for item in found if item.object_name and not item.is_dir)
        return sorted(islice(names, limit or None))

    async def _run(self, key: str, work: Callable[[], R]) -> R:
        """Run ``work`` in a thread; repeat it after transient failures."""

        async def attempt() -> R:
            try:
                return await asyncio.to_thread(work)
            # Everything that minio-py and urllib3 raise; what is transient among it is decided by its status.
            except (MinioException, HTTPError, OSError) as error:
                raise self._to_typed_error(key, error) from error

        return await retry(attempt, self._retry)

    def _to_typed_error(self, key: str, error: Exception) -> FathomError:
        """Return the typed error for an exception of minio-py or urllib3."""
        status, code = outcome(error)
        # No answer at all: refused, timed out, or the name not found.
        if status == 0:
            return DependencyFailed(CULPRIT, f"cannot be reached ({type(error).__name__})")
        # By the code, not by 404 alone: that is also what a wrong bucket or a proxy answers.
        if code in ("NoSuchKey", "NoSuchObject") and status < 500:
            return NotFound("object", key)
        if code == "NoSuchBucket":
            return setting(f"there is no bucket {self._bucket!r}")
        # A wrong key is a setting: retrying it would only delay the message that names it.
        if status in (401, 403):
            return setting(f"access to bucket {self._bucket!r} is denied ({code})")
        return DependencyFailed(CULPRIT, f"HTTP status {status} {code}".rstrip())


def read_checksum(headers: Mapping[str, Any]) -> str | None:
    """Return the checksum in an object's metadata, None where another program has stored it."""
    for algorithm in (SHA256, BLAKE3):
        if digits := headers.get(f"{METADATA}{algorithm}"):
            return format_checksum(algorithm, digits)
    return None


def outcome(error: Exception) -> tuple[int, str]:
    """Return HTTP status and S3 error code of a failed call; ``(0, "")`` when there was no response."""
    if isinstance(error, S3Error):
        return error.response.status, error.code or ""
    if isinstance(error, ServerError):
        return error.status_code, ""
    if isinstance(error, InvalidResponseError):
        # Among these are S3 errors of servers that say text/xml where minio-py wants application/xml.
        code = re.search(r"<Code>(\w+)</Code>", error._body or "")
        return error._code, code[1] if code else ""
    return 0, ""


def setting(message: str) -> ConfigError:
    """Return the error for a wrong setting, which no retry can fix."""
    return ConfigError(f"store_url: {message}", metadata={"field": "store_url"})
