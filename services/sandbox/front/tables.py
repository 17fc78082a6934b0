"""Reader of the tables that callers send: facts and the Arrow stream for sessions, made once, in a child process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fathom.core.errors import CorruptData, InvalidField, PayloadTooLarge
from fathom.domain import frames
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.checks import MAX_DESCRIPTION, validate_frame_name
from fathom.services.sandbox.ipc.memfd import SealedMemory, create_sealed_memory

# A table is in memory as it came, as Arrow, as a frame and written anew; and seconds of processor time for all of that.
COPIES, DECODING_S = 4, 20


@dataclass(frozen=True)
class Table:
    """A table as an Arrow stream in memory, with its digest and number of rows; its holder closes ``memory``."""

    memory: SealedMemory
    digest: str
    rows: int


def make_decoder(config: Config) -> Decoder:
    """Return the decoder of tables, whose children may hold a table of ``frames_bytes`` bytes several times."""
    return Decoder(DecodingLimits(COPIES * config.frames_bytes, DECODING_S))


async def read_table(
    decoder: Decoder, name: str, data: bytes, content_type: str, description: str, config: Config
) -> Table:
    """Read a table from an Arrow IPC stream or a parquet file, by content type; "" means Arrow.

    Raise ``PayloadTooLarge``, or ``InvalidField`` for a bad name, a long description, an unknown content type, bytes
    that are no such table, too many cells, or more than the decoder's limits.
    """
    validate_frame_name(name)
    if len(description) > MAX_DESCRIPTION:
        raise InvalidField("description", f"must have at most {MAX_DESCRIPTION:,} characters")
    if len(data) > config.frames_bytes:
        raise PayloadTooLarge(len(data), config.frames_bytes)
    arrow, digest, rows = await decoder.run("data", inspect_table, name, data, content_type, config)
    memory = await asyncio.to_thread(create_sealed_memory, name, arrow)
    return Table(memory, f"{description}\n{digest}" if description else digest, rows)


def inspect_table(name: str, data: bytes, content_type: str, config: Config) -> tuple[bytes, str, int]:
    """Return Arrow stream, digest and number of rows of a table; raise ``InvalidField("data")``."""
    try:
        table = frames.decode_table(data, content_type, name, config.frames_bytes)
    except CorruptData as error:
        raise InvalidField("data", error.message) from error
    # A column of nulls takes no bytes, however long it is: bytes alone are no bound.
    if table.num_rows * max(1, table.num_columns) > config.frame_cells:
        raise InvalidField("data", f"has more than {config.frame_cells:,} cells")
    # Computed here, not by the worker, whose word would only be a claim.
    digest = frames.digest(frames.to_frame(table), name)
    # Written anew, without compression: the session counts the bytes that its worker maps.
    return frames.write_table(table), digest, int(table.num_rows)
