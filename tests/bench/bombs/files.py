"""Crafted files by the door that they are for: small on the way in, large or endless when they are decoded."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fathom.domain import frames
from fathom.services.sandbox.ipc.frames import NO_NONCE, FrameKind, pack_frame
from tests.support.bombs import make_arrow_bomb, make_deflated_columns, make_parquet_bomb, make_pdf

MIB, GIB = 1 << 20, 1 << 30
# Pieces of a large part that are deflated at once.
BLOCK = 20_000
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PDF, HTML, JSONL = "application/pdf", "text/html", "application/jsonl"


@dataclass(frozen=True)
class Bomb:
    """One crafted file: the door that it is for, its content type, and what makes its bytes."""

    door: str
    content_type: str
    make: Callable[[], bytes]


def write_arrow(table: pa.Table, codec: str | None = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=1_000_000)
    return bytes(sink.getvalue())


def make_many_batches() -> bytes:
    """Return an Arrow stream of 512 batches of zeros, 8 MiB each."""
    batch = pa.table({"x": pa.array(np.zeros(1_000_000, np.int64))})
    return write_arrow(pa.concat_tables([batch] * 512))


def make_dictionary() -> bytes:
    """Return an Arrow stream whose column names one text of 10 kB ten million times."""
    indices = pa.array(np.zeros(10_000_000, np.int8))
    return write_arrow(pa.table({"x": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 10_000]))}))


def make_long_parquet() -> bytes:
    return frames.write_parquet(pa.table({"x": pa.repeat(pa.scalar(0, pa.int64()), 50_000_000)}))


def make_nested_parquet() -> bytes:
    values = pa.repeat(pa.scalar(0, pa.int8()), 20_000_000)
    return frames.write_parquet(pa.table({"x": pa.ListArray.from_arrays([0, 20_000_000], values)}))


@dataclass(frozen=True)
class LargePart:
    """A part of an archive, as its head, a piece, how often that is repeated (a multiple of ``BLOCK``), and its tail."""

    head: bytes
    piece: bytes
    count: int
    tail: bytes

    def deflate(self) -> tuple[bytes, int, int]:
        """Return the part as raw deflate with its checksum and its size, in milliseconds and without unpacking it."""
        block, times = self.piece * BLOCK, self.count // BLOCK
        checksum = zlib.crc32(self.head)
        for _ in range(times):
            checksum = zlib.crc32(block, checksum)
        size = len(self.head) + len(block) * times + len(self.tail)
        data = deflate_alone(self.head) + deflate_alone(block) * times + deflate_alone(self.tail, zlib.Z_FINISH)
        return data, zlib.crc32(self.tail, checksum), size


def deflate_alone(data: bytes, end: int = zlib.Z_FULL_FLUSH) -> bytes:
    """Return raw deflate that refers to nothing before it, so that it may be repeated."""
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush(end)


def make_workbook(part: LargePart, name: str = "xl/worksheets/sheet1.xml", *, told_bytes: int = 0) -> bytes:
    """Return a workbook with one large part; with ``told_bytes`` the archive says that it has that many bytes."""
    spreadsheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    main = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml"'
        f' ContentType="application/xml"/><Default Extension="rels" ContentType="{package}'
        f'.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{main}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{main}.worksheet+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{main}.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
        f' Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{spreadsheet}" xmlns:r="{office}"><sheets>'
        '<sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
        f' Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{spreadsheet}"><sheetData/></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{spreadsheet}"/>',
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, text in parts.items():
            if place != name:
                archive.writestr(place, text)
        add_large_part(archive, name, part, told_bytes)
    return sink.getvalue()


def add_large_part(archive: zipfile.ZipFile, name: str, part: LargePart, told_bytes: int) -> None:
    """Add a part that is deflated already, which the archive has no function for."""
    data, checksum, size = part.deflate()
    entry, file = zipfile.ZipInfo(name), archive.fp
    assert file is not None
    entry.compress_type, entry.CRC = zipfile.ZIP_DEFLATED, checksum
    entry.compress_size, entry.file_size = len(data), told_bytes or size
    entry.header_offset = file.tell()
    file.write(entry.FileHeader() + data)
    archive.filelist.append(entry)
    archive.start_dir = file.tell()


def make_sheet(rows: int) -> LargePart:
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    row = b'<row><c t="inlineStr"><is><t>x</t></is></c></row>'
    return LargePart(head, row, rows, b"</sheetData></worksheet>")


def make_shared_strings(count: int) -> LargePart:
    head = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    return LargePart(head, b"<si><t>x</t></si>", count, b"</sst>")


def make_twice_deflated() -> bytes:
    inner = zlib.compress(b"BT /F1 9 Tf (a) Tj ET\n" * 30_000_000, 9)
    return make_pdf(zlib.compress(inner, 9), encoding="[/FlateDecode /FlateDecode]")


def make_picture_pdf() -> bytes:
    """Return a PDF with a picture of a million million pixels."""
    picture = zlib.compress(bytes(64 * MIB), 9)
    head = b"<</Type /XObject /Subtype /Image /Width 1000000 /Height 1000000 /BitsPerComponent 8"
    head += b" /ColorSpace /DeviceGray /Filter /FlateDecode /Length %d>> stream\n" % len(picture)
    return make_pdf(zlib.compress(b"BT (a) Tj /X Do ET"), objects=[head + picture + b"\nendstream"])


def make_frame(texts: int, characters: int = 0) -> bytes:
    """Return a worker's frame of so many texts."""
    return pack_frame(FrameKind.RESULT, NO_NONCE, ["x" * characters] * texts)


def make_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    picture = zlib.compress(bytes(MIB), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", picture) + chunk(b"IEND", b"")


def make_tensors(count: int) -> bytes:
    """Return a safetensors file of so many empty tensors."""
    tensors = {str(number): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(count)}
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header


def make_array_claim() -> bytes:
    """Return a file of arrays whose only one claims ten million million numbers."""
    head = b"{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }\n"
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("offsets.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    return sink.getvalue()


def repeat(item: str, count: int, before: str = "[", after: str = "0]") -> Callable[[], bytes]:
    return lambda: (before + item * count + after).encode()


def wrap_reply(item: str, count: int) -> Callable[[], bytes]:
    before = '{"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"x": ['
    return repeat(item, count, before, "0]}}}")


def wrap_line(item: str, count: int) -> Callable[[], bytes]:
    return repeat(item, count, '{"text": "a", "more": [', "0]}\n")


BOMBS: Mapping[str, Bomb] = {
    "arrow, one batch of 2 GiB": Bomb("PutFrame", "", lambda: make_arrow_bomb(2 * GIB)),
    "arrow, 512 batches": Bomb("PutFrame", "", make_many_batches),
    "arrow, dictionary": Bomb("PutFrame", "", make_dictionary),
    "arrow, a column of nulls": Bomb("PutFrame", "", lambda: write_arrow(pa.table({"x": pa.nulls(10**9)}), None)),
    "parquet of some hundred bytes": Bomb("PutFrame", frames.PARQUET, lambda: make_parquet_bomb(60_000, 10_000)),
    "parquet, 50 million zeros": Bomb("PutFrame", frames.PARQUET, make_long_parquet),
    "parquet, one long list": Bomb("PutFrame", frames.PARQUET, make_nested_parquet),
    "xlsx, 600 MB of rows": Bomb("ImportTable", XLSX, lambda: make_workbook(make_sheet(12_000_000))),
    "xlsx, 400 MB of rows": Bomb("ImportTable", XLSX, lambda: make_workbook(make_sheet(8_000_000))),
    "xlsx, shared texts": Bomb(
        "ImportTable", XLSX, lambda: make_workbook(make_shared_strings(20_000_000), "xl/sharedStrings.xml")
    ),
    "xlsx that lies about its size": Bomb(
        "ImportTable", XLSX, lambda: make_workbook(make_sheet(12_000_000), told_bytes=1_000)
    ),
    "csv, one line": Bomb("ImportTable", "text/csv", lambda: b"a" * 60 * MIB),
    "csv, 10 million columns": Bomb("ImportTable", "text/csv", lambda: b"a," * 10_000_000),
    "arrow, 2 GiB imported": Bomb("ImportTable", frames.ARROW_STREAM, lambda: make_arrow_bomb(2 * GIB)),
    "parquet, imported": Bomb("ImportTable", frames.PARQUET, lambda: make_parquet_bomb(100_000, 10_000)),
    "pdf, one stream of 660 MB": Bomb(
        "Ingest", PDF, lambda: make_pdf(zlib.compress(b"BT /F1 9 Tf (a) Tj ET\n" * 30_000_000, 9))
    ),
    "pdf, deflated twice": Bomb("Ingest", PDF, make_twice_deflated),
    "pdf, 3,000 pages of 7 MB": Bomb(
        "Ingest", PDF, lambda: make_pdf(zlib.compress(b"BT (a) Tj ET\n" * 550_000, 9), pages=3_000)
    ),
    "pdf, a picture": Bomb("Ingest", PDF, make_picture_pdf),
    "parquet of documents": Bomb("Ingest", frames.PARQUET, lambda: make_parquet_bomb(60_000, 10_000)),
    "html, 150,000 deep": Bomb("Ingest", HTML, lambda: b"<div>" * 150_000 + b"deep"),
    "html, 60 MB in an attribute": Bomb("Ingest", HTML, lambda: b'<p title="' + b"a" * 60 * MIB + b'">a</p>'),
    "page, 59,000 deep": Bomb("web page", HTML, lambda: b"<b>" * 59_000 + b"deep"),
    "page, 8 MB of entities": Bomb("web page", HTML, lambda: b"<p>" + b"&lt;" * (2 * MIB - 100) + b"</p>"),
    "page, pdf": Bomb("web page", PDF, lambda: make_pdf(zlib.compress(b"BT (a) Tj ET\n" * 5_000_000, 9))),
    "line, 5 million lists": Bomb("JSON line", JSONL, wrap_line("[],", 5_000_000)),
    "line, 2 million objects": Bomb("JSON line", JSONL, wrap_line('{"":0},', 2_000_000)),
    "line, a million deep": Bomb("JSON line", JSONL, repeat("[", 1_000_000, '{"text": ', "")),
    "line, one wide character": Bomb(
        "JSON line", JSONL, lambda: ('{"text": "' + "a" * 15 * MIB + "\U0001f600" + '"}\n').encode()
    ),
    "answer, gzip of 1 GB": Bomb("HTTP answer", "gzip", lambda: gzip.compress(bytes(GIB), 1)),
    "answer, gzip of lists": Bomb("HTTP answer", "gzip", lambda: gzip.compress(repeat("[],", 10_000_000)(), 1)),
    "answer, 10 million numbers": Bomb("HTTP answer", "", repeat("1e9,", 8_000_000)),
    "answer, deep": Bomb("HTTP answer", "", repeat("[", 30_000_000, "", "")),
    "body, lists": Bomb("gateway body", "", repeat("[],", 330_000, '{"question": [', "0]}")),
    "body, objects": Bomb("gateway body", "", repeat('{"":0},', 140_000, '{"question": [', "0]}")),
    "body, deep": Bomb("gateway body", "", repeat("[", 990_000, "", "")),
    "reply, lists": Bomb("MCP reply", "", wrap_reply("[],", 1_300_000)),
    "reply, objects": Bomb("MCP reply", "", wrap_reply('{"":0},', 590_000)),
    "reply, as many values as it may have": Bomb("MCP reply", "", wrap_reply('{"":0},', 149_000)),
    "reply, deep": Bomb("MCP reply", "", repeat("[", 4_000_000, "", "")),
    "frame, texts": Bomb("worker frame", "", lambda: make_frame(250_000)),
    "frame, as many texts as it may have": Bomb("worker frame", "", lambda: make_frame(604, 1_000)),
    "figure, lists": Bomb("worker frame", "figure", repeat("[],", 1_000_000, '{"data": [', "0]}")),
    "figure, as many brackets as it may have": Bomb(
        "worker frame", "figure", repeat("[0],", 199_000, '{"data": [', "0]}")
    ),
    "figure, a million values": Bomb("worker frame", "figure", repeat("1e9,", 999_000, '{"data": [', "0]}")),
    "picture of 10^10 pixels": Bomb("worker frame", "picture", lambda: make_png(100_000, 100_000)),
    "weights, a header without end": Bomb("weights", "", lambda: struct.pack("<Q", 2**60) + b"{"),
    "weights, 250,000 tensors": Bomb("weights", "", lambda: make_tensors(250_000)),
    "arrays, deflated": Bomb("snapshot", "", lambda: make_deflated_columns(GIB)),
    "arrays, a false length": Bomb("snapshot", "", make_array_claim),
    "arguments, lists": Bomb("tool arguments", "", repeat("[],", 66_000, '{"a": [', "0]}")),
}
