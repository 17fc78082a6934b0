"""Key-value bucket on a NATS server (JetStream); writes are safe to repeat when a confirmation is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from nats.aio.msg import Msg
from nats.js.api import Header
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from fathom.core.ids import new_id
from fathom.transport.bus.base import Entry
from fathom.transport.bus.keys import changed_meanwhile, checked_put
from fathom.transport.bus.nats.link import Link
from fathom.transport.bus.nats.pull import replay
from fathom.transport.bus.streams import Bucket

OPERATION_HEADER = "KV-Operation"
DELETE, PURGE = "DEL", "PURGE"
# The server's codes for an expected last sequence that is not the last, with and without the right one in its words.
WRONG_LAST_SEQUENCE = (10071, 10164)
NO_MESSAGE = 10037


class NatsKeyValue:
    """A ``KeyValue`` over one NATS connection."""

    def __init__(self, link: Link, bucket: Bucket, declare: Callable[[], Awaitable[None]]) -> None:
        self._link, self._bucket, self._declare = link, bucket, declare

    async def get(self, key: str) -> Entry | None:
        entry = await self._latest(key)
        return None if entry is None or entry.value is None else entry

    async def _latest(self, key: str) -> Entry | None:
        """Return the last entry of a key, including a deletion marker."""
        subject = self._bucket.subject(key)

        async def call() -> Entry | None:
            try:
                found = await self._link.jetstream.get_last_msg(self._bucket.stream.name, subject)
            except NotFoundError as error:
                if error.err_code != NO_MESSAGE:
                    # The server has lost its storage: there is no bucket, hence no value.
                    await self._declare()
                return None
            headers = found.headers or {}
            # As the nats CLI marks deletions in key-value buckets.
            deleted = headers.get(OPERATION_HEADER) in (DELETE, PURGE)
            return Entry(key, None if deleted else found.data or b"", found.seq or 0)

        entry: Entry | None = await self._link.confirm(f"the value of {key}", call)
        return entry

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> int:
        checked_put(key, value, revision)
        return await self._store(key, value, {}, revision)

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        checked_put(key, b"", revision)
        return await self._store(key, b"", {OPERATION_HEADER: DELETE}, revision)

    async def _store(self, key: str, value: bytes, headers: dict[str, str], revision: int | None) -> int:
        ident = new_id("kv")
        sent = {**headers, Header.MSG_ID.value: ident}
        if revision is not None:
            sent[Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value] = str(await self._find_expected_sequence(key, revision))

        async def call() -> int:
            try:
                return await self._link.store(self._bucket.stream.name, self._bucket.subject(key), value, sent)
            except NoStreamResponseError:
                await self._declare()
                raise
            except APIError as error:
                if error.err_code in WRONG_LAST_SEQUENCE:
                    # The confirmation of an earlier attempt may have been lost: then the conflict is with oneself.
                    own = await self._link.find_own_message(self._bucket.stream.name, self._bucket.subject(key), ident)
                    if own is not None:
                        return own
                    raise changed_meanwhile(self._bucket.name, key, revision or 0) from error
                raise

        stored: int = await self._link.confirm(f"the value of {key}", call)
        return stored

    async def _find_expected_sequence(self, key: str, revision: int) -> int:
        """Return the sequence for the server to compare with; a deleted key counts as one without a value.

        Raises ``Conflict`` when ``revision`` is 0 and the key has a value.
        """
        if revision:
            return revision
        latest = await self._latest(key)
        if latest is None:
            return 0
        if latest.value is not None:
            raise changed_meanwhile(self._bucket.name, key, revision)
        return latest.revision

    async def keys(self) -> list[str]:
        stream = self._bucket.stream

        async def call() -> list[str]:
            try:
                info = await self._link.jetstream.stream_info(stream.name, subjects_filter=stream.subjects[0])
            except NotFoundError:
                await self._declare()
                return []
            return sorted(map(self._bucket.key, info.state.subjects or ()))

        found: list[str] = await self._link.confirm(f"the keys of {self._bucket.name}", call)
        return found

    async def watch(self) -> AsyncGenerator[Entry, None]:
        stream = self._bucket.stream
        async with aclosing(replay(self._link, stream, stream.subjects[0], 0)) as messages:
            async for message in messages:
                yield self._entry(message)

    def _entry(self, message: Msg) -> Entry:
        deleted = (message.headers or {}).get(OPERATION_HEADER) in (DELETE, PURGE)
        key = self._bucket.key(message.subject)
        return Entry(key, None if deleted else message.data, message.metadata.sequence.stream)
