"""Input of an ingest, documents or files in chunks: valid lines are collected, invalid ones reported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from fathom.core.errors import InvalidField
from fathom.services.retrieval.corpus import rows
from fathom.services.retrieval.corpus.rows import Issue, Parse
from fathom.services.retrieval.corpus.snapshot import Snapshot
from fathom.services.retrieval.documents.model import Document, hash64, hash_content, parse_document

JSONL = frozenset({"", "application/jsonl", "application/x-ndjson", "application/jsonlines", "application/x-jsonlines"})
# Bounds of memory: one line, one whole file, and reasons that fit a reply; what is beyond is only counted.
MAX_ISSUES, MAX_LINE_BYTES, MAX_FILE_BYTES = 100, 16 << 20, 64 << 20


@dataclass(frozen=True)
class Chunk:
    """A piece of a file; consecutive pieces with the same source are one file.

    ``published`` is when, for a file that does not say so itself.
    """

    data: bytes
    media_type: str = ""
    source: str = ""
    published: datetime | None = None


class IngestBuffer:
    """Collects new documents in a spool file on disk; not thread-safe."""

    def __init__(self, spool: Path, base: Snapshot | None, parsers: Mapping[str, Parse], max_bytes: int) -> None:
        self.added = self.duplicates = self.rejected = 0
        self._unreadable = 0
        self._field = "document"
        self.issues: list[Issue] = []
        self._path, self._base, self._parsers, self._left = spool, base, parsers, max_bytes
        self._spool: BinaryIO = spool.open("wb")
        # Hashes instead of texts, so that an ingest of millions of documents does not hold their contents.
        self._ids: set[int] = set()
        self._contents: set[int] = set()
        self._file: tuple[str, str, datetime | None] | None = None
        self._held = bytearray()
        self._line = 0

    def add_chunk(self, chunk: Chunk) -> None:
        """Add a piece of a file; raise ``InvalidField`` for an unknown media type and for too many bytes."""
        kind = chunk.media_type.partition(";")[0].strip().lower()
        if kind not in JSONL and kind not in self._parsers:
            known = sorted(JSONL - {""} | set(self._parsers))
            raise InvalidField("media_type", f"{kind[:80]!r} is not known; known: {', '.join(known)}")
        self._field = "data"
        # The stream marks no ends of files: another source or type begins the next one.
        if self._file is None or self._file[:2] != (kind, chunk.source):
            self.end_file()
            self._file = (kind, chunk.source, chunk.published)
        # Counted before it is held, so that no chunk passes the limit.
        self._left -= len(chunk.data)
        limit = MAX_LINE_BYTES if kind in JSONL else MAX_FILE_BYTES
        if self._left < 0:
            raise InvalidField("data", "is more than one ingest may bring")
        self._held += chunk.data
        if kind in JSONL:
            self._split_lines(complete=False)
        if len(self._held) > limit:
            raise InvalidField("data", f"a {'line' if kind in JSONL else 'file'} has more than {limit:,} bytes")

    def end_file(self) -> None:
        """Process the rest of the current file."""
        if self._file is None:
            return
        kind, source, published = self._file
        if kind in JSONL:
            self._split_lines(complete=True)
        elif self._held:
            for item in self._parsers[kind](bytes(self._held), kind, source, published):
                self._add_item(item, source)
        self._file, self._line = None, 0
        self._held.clear()

    def _split_lines(self, *, complete: bool) -> None:
        start = 0
        while (end := self._held.find(b"\n", start)) >= 0:
            self._add_row(bytes(self._held[start:end]))
            start = end + 1
        # The rest of the last line waits for the next chunk.
        del self._held[:start]
        if complete and self._held:
            self._add_row(bytes(self._held))
            self._held.clear()

    def _add_row(self, line: bytes) -> None:
        self._line += 1
        if not line.strip():
            return
        source = self._file[1] if self._file else ""
        for item in rows.read_line(line, self._line, source):
            self._add_item(item, source)

    def _add_item(self, item: Document | Issue, source: str) -> None:
        if isinstance(item, Issue):
            self._unreadable += item.lost
            self._refuse(item)
        else:
            self.add_document(item, self._line if self._file and self._file[0] in JSONL else 0, source)

    def add_document(self, document: Document, line: int = 0, source: str = "") -> None:
        """Add one document, unless its content exists already or its id belongs to another document."""
        key = hash_content(document.title, document.text)
        if document.key:
            self._add_version(document)
            return
        # Content before id: the same text under another id is no error, only nothing new.
        if hash64(key) in self._contents or (
            self._base is not None and self._base.table.find_twin(document) is not None
        ):
            self.duplicates += 1
            return
        taken = hash64(document.id) in self._ids
        if taken or (self._base is not None and self._base.table.find_position(document.id) is not None):
            self._refuse(Issue(line, f"id {document.id!r} is there already, with other content", source))
            return
        self._contents.add(hash64(key))
        self._write(document)

    def _add_version(self, document: Document) -> None:
        """Add a document of a source with versions, unless that version is here and the newest one."""
        # By id, which the content makes: two sources may say the same, and each has versions of its own.
        position = None if self._base is None else self._base.table.find_position(document.id)
        if hash64(document.id) in self._ids or (position is not None and self._is_current(position)):
            self.duplicates += 1
            return
        if position is not None:
            # An earlier version comes back: as a version of its own, newer than the one that had replaced it.
            again = f".{len(self._base.table)}" if self._base is not None else ""
            parent = f"{document.parent}{again}" if document.parent else ""
            document = replace(document, id=f"{document.id}{again}", parent=parent)
        self._write(document)

    def _is_current(self, position: int) -> bool:
        # Of a version with a date the place is given by that date, whenever it comes.
        table = self._base.table if self._base is not None else None
        return table is None or table.is_current(position) or table.documents[position].published is not None

    def _write(self, document: Document) -> None:
        self._ids.add(hash64(document.id))
        # On disk: an ingest may be larger than memory.
        self._spool.write(json.dumps(document.to_row(), ensure_ascii=False).encode() + b"\n")
        self.added += 1

    def _refuse(self, issue: Issue) -> None:
        # A document that was added without a field that could not be read is reported, but not rejected.
        self.rejected += issue.lost
        if len(self.issues) < MAX_ISSUES:
            self.issues.append(issue)

    def refuse(self, message: str) -> None:
        """Count an invalid document."""
        self._unreadable += 1
        self._refuse(Issue(0, message))

    def require_anything(self) -> None:
        """Raise ``InvalidField`` with the first issue when nothing of all that was sent could be read."""
        if self._unreadable and self._unreadable == self.rejected and not self.added + self.duplicates:
            issue = next(issue for issue in self.issues if issue.lost)
            place = f"line {issue.line} of " if issue.line else ""
            source = issue.source or "what was sent"
            raise InvalidField(self._field, f"holds nothing that can be read: {place}{source}: {issue.message}")

    def read_documents(self) -> Iterator[Document]:
        """Yield the collected documents."""
        self._spool.flush()
        with self._path.open("rb") as file:
            for line in file:
                yield parse_document(json.loads(line))

    def close(self) -> None:
        """Close the spool file."""
        self._spool.close()
