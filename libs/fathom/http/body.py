"""A body of bounded size, unpacked here so that a few compressed bytes cannot become gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from fathom.http.errors import AnswerTooLarge, MalformedAnswer

ENCODINGS = "gzip, deflate"


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int, culprit: str) -> bytes:
    """All of the raw ``chunks`` unpacked, at most ``limit`` bytes.

    Raises ``AnswerTooLarge``, and ``MalformedAnswer`` for an encoding that was not asked for or broken data.
    """
    unpack = unpacker(encoding, culprit)
    body = bytearray()
    async for chunk in chunks:
        if unpack is None:
            body += chunk
        else:
            try:
                body += unpack.decompress(chunk, limit + 1 - len(body))
            except zlib.error as error:
                raise MalformedAnswer(culprit, f"broken {encoding} data: {error}") from error
        if len(body) > limit:
            raise AnswerTooLarge(culprit, limit)
    return bytes(body)


def unpacker(encoding: str, culprit: str) -> zlib._Decompress | None:
    """None for plain bytes."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return None
    if name in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(47)  # 32 + 15: gzip or zlib by their first bytes
    raise MalformedAnswer(culprit, f"content encoding {name!r} was not asked for")
