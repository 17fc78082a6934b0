"""A file that a caller sends is read in a child process, and costs the service neither its memory nor the other files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.decoding import DecodingLimits
from fathom.services.retrieval.corpus import whole_files
from fathom.services.retrieval.corpus.ingest import Chunk, IngestBuffer
from fathom.services.retrieval.corpus.parse.ocr import OcrLimits
from fathom.services.retrieval.corpus.parse.pdf import NO_PAGES
from fathom.services.retrieval.corpus.rows import Parse, list_parsers, read_file
from fathom.services.retrieval.corpus.whole_files import FileReader, add_whole_file
from fathom.services.retrieval.documents.table import Table
from tests.support.bombs import decode_for_ever, make_deflated_columns

SMALL = DecodingLimits(memory_bytes=192 << 20, processor_s=3, children=1)


@pytest_asyncio.fixture
async def reader() -> AsyncIterator[FileReader]:
    reader = FileReader(OcrLimits(), SMALL)
    yield reader
    reader.close()


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[IngestBuffer]:
    intake = IngestBuffer(tmp_path / "spool.jsonl", None, list_parsers(), 1 << 30)
    yield intake
    intake.close()


async def add(
    reader: FileReader, intake: IngestBuffer, data: bytes, media_type: str, source: str, parse: Parse
) -> None:
    chunk = Chunk(data, media_type, source)
    assert intake.begins_file(chunk)
    intake.add_chunk(chunk)
    whole = intake.end_file()
    assert whole is not None
    await add_whole_file(reader, intake, parse, whole)


async def test_a_file_over_the_childs_limits_is_an_issue_and_the_next_one_is_read(
    reader: FileReader, intake: IngestBuffer
) -> None:
    await add(reader, intake, b"%PDF-1.7", "application/pdf", "bomb.pdf", decode_for_ever)  # type: ignore[arg-type]
    assert (intake.added, intake.rejected) == (0, 1)
    said = "bomb.pdf cannot be decoded within 201,326,592 bytes of memory or 3 s of processor time"
    assert [(issue.source, issue.message) for issue in intake.issues] == [("bomb.pdf", said)]
    # Plain text: what looks for the date of a page compiles hundreds of patterns first, more than these limits allow on a
    # slow machine.
    await add(reader, intake, b"Net income rose by 4% in 2023.", "text/plain", "a.txt", read_file)
    assert intake.added == 1
    assert [document.source for document in intake.read_documents()] == ["a.txt"]


async def test_the_documents_of_one_file_have_a_limit_on_disk(
    reader: FileReader, intake: IngestBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "MAX_ROWS_BYTES", 10)
    # In this process, since another one would not know the small limit.
    intake.add_chunk(Chunk(b"A text of some words.", "text/plain", "a.txt"))
    whole = intake.end_file()
    assert whole is not None
    with pytest.raises(InvalidField, match="data: unpacks to more than 10 bytes of documents"):
        whole_files.write_items(whole, read_file, NO_PAGES)


def test_a_line_whose_objects_would_fill_the_memory_is_an_issue(intake: IngestBuffer) -> None:
    wide = b'{"text": "a", "more": [' + b"[]," * 2_000_000 + b"[]]}\n"
    intake.add_chunk(Chunk(wide + b'{"text": "A second line."}\n', "application/jsonl", "a.jsonl"))
    assert intake.end_file() is None
    assert (intake.added, intake.rejected) == (1, 1)
    assert "may take more than" in intake.issues[0].message


def test_columns_that_are_compressed_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "columns.npz"
    path.write_bytes(make_deflated_columns(64 << 20))
    assert path.stat().st_size < 100_000
    with pytest.raises(CorruptData, match="it would unpack to 67,1"):
        Table([], [], path)
