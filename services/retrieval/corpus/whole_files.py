"""Reading of whole files in a child process: what is found goes through a file on disk, not through memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fathom.core.errors import InvalidField
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.services.retrieval.corpus.ingest import IngestBuffer, WholeFile
from fathom.services.retrieval.corpus.rows import Issue, Parse
from fathom.services.retrieval.documents.model import Document, parse_document

# A file of 64 MiB as it came, its pages or columns, and one document with its text; seconds of processor time.
FILE_LIMITS = DecodingLimits(memory_bytes=1 << 30, processor_s=150)
# Of documents on disk, from one file.
MAX_ROWS_BYTES = 2 << 30


async def add_whole_file(decoder: Decoder, intake: IngestBuffer, parse: Parse, file: WholeFile) -> None:
    """Add the documents and issues of a file, which a child process reads; one over the child's limits is an issue."""
    try:
        await decoder.run("data", write_items, file, parse)
    except InvalidField as error:
        issue = Issue(0, f"{file.source or 'a file'} {error.message.partition(': ')[2]}", file.source)
        await asyncio.to_thread(intake.add_items, [issue], file.source)
        return
    await asyncio.to_thread(intake.add_items, read_items(file.rows), file.source)


def write_items(file: WholeFile, parse: Parse) -> None:
    """Write what a file holds as JSON lines; raise ``InvalidField("data")`` when that is more than a file may."""
    size = 0
    with file.rows.open("wb") as rows:
        for item in parse(file.data, file.media_type, file.source, file.published):
            found = {"document": item.to_row()} if isinstance(item, Document) else {"issue": asdict(item)}
            line = json.dumps(found, ensure_ascii=False).encode() + b"\n"
            size += len(line)
            if size > MAX_ROWS_BYTES:
                raise InvalidField("data", f"unpacks to more than {MAX_ROWS_BYTES:,} bytes of documents")
            rows.write(line)


def read_items(rows: Path) -> Iterator[Document | Issue]:
    """Yield what ``write_items`` has written, one at a time."""
    with rows.open("rb") as lines:
        for line in lines:
            found = json.loads(line)
            yield parse_document(found["document"]) if "document" in found else Issue(**found["issue"])
