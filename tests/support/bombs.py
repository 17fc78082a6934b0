"""Tables that unpack to far more than they weigh, and functions that decode without end."""

from __future__ import annotations

import io
import os
import signal
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fathom.core.errors import NotFound
from fathom.domain import frames

COLUMN_NUMBERS, NUMBER_BYTES = 131_072, 8


def make_arrow_bomb(unpacked_bytes: int) -> bytes:
    """Return a compressed Arrow stream whose only batch takes so many bytes, some thousand times its own.

    All columns are one array of zeros here, and each an array of its own for the reader.
    """
    column = pa.array([0] * COLUMN_NUMBERS, pa.int64())
    count = unpacked_bytes // (COLUMN_NUMBERS * NUMBER_BYTES)
    table = pa.table([column] * count, names=[str(number) for number in range(count)])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def make_parquet_bomb(rows: int, text_bytes: int) -> bytes:
    """Return a parquet file of some hundred bytes with the same text in every row."""
    return frames.write_parquet(pa.table({"text": pa.repeat(pa.scalar("x" * text_bytes), rows)}))


def make_archive_bomb(member: str, unpacked_bytes: int) -> bytes:
    """Return a ZIP archive with one member of blanks, a thousandth of their number in size."""
    archive, block = io.BytesIO(), b" " * (16 << 20)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as held, held.open(member, "w") as file:
        for _ in range(unpacked_bytes // len(block)):
            file.write(block)
    return archive.getvalue()


def make_pdf(content: bytes, *, pages: int = 1, encoding: str = "/FlateDecode", objects: Sequence[bytes] = ()) -> bytes:
    """Return a PDF whose pages share one content stream, compressed as ``encoding`` says; ``objects`` follow it."""
    kids = b" ".join(b"%d 0 R" % (5 + number) for number in range(pages))
    page = b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 3 0 R"
    page += b" /Resources <</Font <</F1 4 0 R>>>>>>"
    bodies = [
        b"<</Type /Catalog /Pages 2 0 R>>",
        b"<</Type /Pages /Count %d /Kids [%s]>>" % (pages, kids),
        b"<</Length %d /Filter %s>> stream\n%s\nendstream" % (len(content), encoding.encode(), content),
        b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>",
        *[page] * pages,
        *objects,
    ]
    data, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(bodies, start=1):
        places.append(len(data))
        data += b"%d 0 obj %s endobj\n" % (number, body)
    start, count = len(data), len(places) + 1
    data += b"xref\n0 %d\n0000000000 65535 f \n" % count + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(data) + b"trailer <</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (count, start)


def make_deflated_columns(unpacked_bytes: int) -> bytes:
    """Return a file of numpy arrays that is compressed, as ours never are."""
    sink = io.BytesIO()
    np.savez_compressed(sink, offsets=np.zeros(unpacked_bytes // 8, np.int64))
    return sink.getvalue()


def decode_for_ever(*_: Any) -> None:
    """Use the processor without end."""
    while True:
        pass


def end_like_a_crash() -> None:
    """End the process as a defect of a decoder in C would."""
    os.kill(os.getpid(), signal.SIGSEGV)


def find_nothing() -> None:
    """Raise an error whose constructor is unlike that of its base."""
    raise NotFound("series", "GOLD", ["XAU"])


def read_pid() -> int:
    """Return the id of the process that decodes."""
    return os.getpid()
