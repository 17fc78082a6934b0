"""Response body of bounded size, decompressed here so that a few compressed bytes cannot become gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from fathom.transport.http.errors import AnswerTooLarge, MalformedAnswer

# Those that the standard library decompresses; others, such as br, are then not sent.
ENCODINGS = "gzip, deflate"


class Body:
    """Decompresses raw chunks and holds the result, at most ``limit`` bytes."""

    def __init__(self, encoding: str, limit: int, culprit: str) -> None:
        """Create an empty body; raise ``MalformedAnswer`` for an encoding that was not requested."""
        self._unpack, self._limit, self._culprit = unpacker(encoding, culprit), limit, culprit
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        """Append a chunk; raise ``AnswerTooLarge``, and ``MalformedAnswer`` for broken data."""
        if self._unpack is None:
            self._bytes += chunk
        else:
            try:
                # One byte beyond the limit is enough to see that it is exceeded; the rest of the chunk stays
                # compressed.
                self._bytes += self._unpack.decompress(chunk, self._limit + 1 - len(self._bytes))
            except zlib.error as error:
                raise MalformedAnswer(self._culprit, f"broken compressed data: {error}") from error
        if len(self._bytes) > self._limit:
            raise AnswerTooLarge(self._culprit, self._limit)

    def whole(self) -> bytes:
        return bytes(self._bytes)


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int, culprit: str) -> bytes:
    """Return all raw ``chunks`` decompressed; raises as ``Body``."""
    body = Body(encoding, limit, culprit)
    async for chunk in chunks:
        body.add(chunk)
    return body.whole()


def unpacker(encoding: str, culprit: str) -> zlib._Decompress | None:
    """Return a decompressor for the encoding, None for plain bytes; raise ``MalformedAnswer`` for any other."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return None
    if name in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(47)  # 32 + 15: gzip or zlib by their first bytes
    raise MalformedAnswer(culprit, f"content encoding {name!r} was not asked for")
