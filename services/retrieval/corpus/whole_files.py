"""Reading of whole files in a child process: what is found goes through a file on disk, not through memory.

Pages that are pictures are read in a second child process, with limits of their own, if the extra "ocr" is installed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from fathom.core.errors import InvalidField
from fathom.domain.decoding import Decoder, DecodingLimits
from fathom.services.retrieval.corpus.ingest import IngestBuffer, WholeFile
from fathom.services.retrieval.corpus.parse.model import format_reason
from fathom.services.retrieval.corpus.parse.ocr import (
    OcrLimits,
    RecognizedPage,
    describe_excess,
    has_ocr,
    recognize_pages,
)
from fathom.services.retrieval.corpus.rows import Issue, Parse
from fathom.services.retrieval.documents.model import Document, parse_document

# A file of 64 MiB as it came, its pages or columns, and one document with its text; seconds of processor time.
FILE_LIMITS = DecodingLimits(memory_bytes=1 << 30, processor_s=150)
# Address space of two models (0.7 GB of it in use), a page's picture and the file; seconds until the models are loaded.
OCR_MEMORY_BYTES, OCR_START_S = 3 << 30, 30
# Of documents on disk, from one file.
MAX_ROWS_BYTES = 2 << 30


class FileReader:
    """Child processes that read whole files: one kind for their text, one for the characters on scanned pages."""

    def __init__(self, ocr: OcrLimits, limits: DecodingLimits = FILE_LIMITS) -> None:
        self._ocr = ocr
        self._decoder = Decoder(limits)
        # One at a time: a model and a page's picture are large, and recognition takes all of a processor.
        self._recognizer = Decoder(DecodingLimits(OCR_MEMORY_BYTES, ocr.seconds + OCR_START_S, children=1))

    async def read(self, parse: Parse, file: WholeFile) -> None:
        """Write what a file holds to its ``rows``; raise ``InvalidField("data")`` for one over the limits."""
        scans = await self._decoder.run("data", write_items, file, parse, {})
        if scans and has_ocr():
            await self._decoder.run("data", write_items, file, parse, await self._recognize(file.data, scans))

    async def _recognize(self, data: bytes, scans: Sequence[int]) -> Mapping[int, RecognizedPage]:
        if not self._ocr.pages:
            return dict.fromkeys(scans, RecognizedPage(reason=describe_excess(self._ocr)))
        try:
            return await self._recognizer.run("scan", recognize_pages, data, scans, self._ocr)
        except Exception as error:  # native code that meets files of strangers; the other pages have their text anyway
            said = error.message.partition(": ")[2] if isinstance(error, InvalidField) else format_reason(error)
            return dict.fromkeys(scans, RecognizedPage(reason=f"OCR failed: {said}"))

    def close(self) -> None:
        """End the children."""
        self._decoder.close()
        self._recognizer.close()


async def add_whole_file(reader: FileReader, intake: IngestBuffer, parse: Parse, file: WholeFile) -> None:
    """Add the documents and issues of a file, which a child process reads; one over the child's limits is an issue."""
    try:
        await reader.read(parse, file)
    except InvalidField as error:
        issue = Issue(0, f"{file.source or 'a file'} {error.message.partition(': ')[2]}", file.source)
        await asyncio.to_thread(intake.add_items, [issue], file.source)
        return
    await asyncio.to_thread(intake.add_items, read_items(file.rows), file.source)


def write_items(file: WholeFile, parse: Parse, recognized: Mapping[int, RecognizedPage]) -> list[int]:
    """Write what a file holds as JSON lines; return the numbers of its pages that are pictures.

    Raise ``InvalidField("data")`` when it holds more than a file may.
    """
    size = 0
    scans = []
    with file.rows.open("wb") as rows:
        for item in parse(file.data, file.media_type, file.source, file.published, recognized):
            if isinstance(item, Issue) and item.scan:
                scans.append(item.scan)
            found = {"document": item.to_row()} if isinstance(item, Document) else {"issue": asdict(item)}
            line = json.dumps(found, ensure_ascii=False).encode() + b"\n"
            size += len(line)
            if size > MAX_ROWS_BYTES:
                raise InvalidField("data", f"unpacks to more than {MAX_ROWS_BYTES:,} bytes of documents")
            rows.write(line)
    return scans


def read_items(rows: Path) -> Iterator[Document | Issue]:
    """Yield what ``write_items`` has written, one at a time."""
    with rows.open("rb") as lines:
        for line in lines:
            found = json.loads(line)
            yield parse_document(found["document"]) if "document" in found else Issue(**found["issue"])
