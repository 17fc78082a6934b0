"""Input of an ingest, documents or files in chunks: valid lines are collected, invalid ones reported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from fathom.core.errors import InvalidField
from fathom.services.retrieval.corpus import rows
from fathom.services.retrieval.corpus.rows import Issue, Parse
from fathom.services.retrieval.corpus.snapshot import Snapshot
from fathom.services.retrieval.documents.model import (
    Document,
    hash64,
    hash_content,
    make_deletion,
    parse_document,
)

JSONL = frozenset({"", "application/jsonl", "application/x-ndjson", "application/jsonlines", "application/x-jsonlines"})
# Bounds of memory: one line, one whole file, and reasons that fit a reply; what is beyond is only counted.
MAX_ISSUES, MAX_LINE_BYTES, MAX_FILE_BYTES = 100, 16 << 20, 64 << 20
# Names of sources are repeated in issues, whatever a caller sent.
MAX_NAME_CHARS = 200
# Of a version without a date, for comparisons with those that have one.
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class WholeFile:
    """All bytes of a file that is not read line by line, and where what a child process reads in it is to be written.

    ``media_type`` is one of the parsers', ``published`` the day of a file that does not say one itself.
    """

    data: bytes
    media_type: str
    source: str
    published: datetime | None
    rows: Path


@dataclass(frozen=True)
class Chunk:
    """A piece of a file; consecutive pieces with the same source are one file.

    ``published`` is when, for a file that does not say so itself.
    """

    data: bytes
    media_type: str = ""
    source: str = ""
    published: datetime | None = None


@dataclass(frozen=True)
class Deletion:
    """A source to delete by its key, and when it was withdrawn; None means now."""

    key: str
    when: datetime | None = None


Item = Document | Chunk | Deletion | Issue
"""Parts of an ingest, one after the other."""


def read_kind(chunk: Chunk) -> str:
    """Return the media type of a piece without its parameters."""
    return chunk.media_type.partition(";")[0].strip().lower()


class IngestBuffer:
    """Collects new documents in a spool file on disk; not thread-safe."""

    def __init__(self, spool: Path, base: Snapshot | None, parsers: Mapping[str, Parse], max_bytes: int) -> None:
        self.added = self.duplicates = self.rejected = self.deleted = 0
        self._unreadable = 0
        self._field = "document"
        self.issues: list[Issue] = []
        self._path, self._base, self._parsers, self._left = spool, base, parsers, max_bytes
        self._spool: BinaryIO = spool.open("wb")
        # Hashes instead of texts, so that an ingest of millions of documents does not hold their contents.
        self._ids: set[int] = set()
        self._contents: set[int] = set()
        # By key of sources in this ingest: when their newest version was published, None after a deletion; and of those
        # that were deleted the number of their deletion.
        self._newest: dict[int, datetime | None] = {}
        self._gone: dict[int, int] = {}
        self._file: tuple[str, str, datetime | None] | None = None
        self._held = bytearray()
        self._line = 0

    def begins_file(self, chunk: Chunk) -> bool:
        """Return whether a piece belongs to another file than the current one, which is to be ended before."""
        # The stream marks no ends of files: another source or type begins the next one.
        return self._file is None or self._file[:2] != (read_kind(chunk), chunk.source)

    def add_chunk(self, chunk: Chunk) -> None:
        """Add a piece of a file; raise ``InvalidField`` for an unknown media type and for too many bytes."""
        kind = read_kind(chunk)
        if kind not in JSONL and kind not in self._parsers:
            known = sorted(JSONL - {""} | set(self._parsers))
            raise InvalidField("media_type", f"{kind[:80]!r} is not known; known: {', '.join(known)}")
        self._field = "data"
        if self._file is None:
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

    def end_file(self) -> WholeFile | None:
        """Process the rest of the current file; return it when it is to be read as a whole, by ``read_items``."""
        if self._file is None:
            return None
        (kind, source, published), whole = self._file, None
        if kind in JSONL:
            self._split_lines(complete=True)
        elif self._held:
            found = self._path.with_name("rows.jsonl")
            whole = WholeFile(bytes(self._held), kind, source, published, found)
        self._file, self._line = None, 0
        self._held.clear()
        return whole

    def add_items(self, items: Iterable[Document | Issue], source: str) -> None:
        """Add what a whole file holds."""
        for item in items:
            self._add_item(item, source)

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

    def delete_source(self, deletion: Deletion) -> None:
        """Note that a source is deleted; one that is not there, or a time before its newest version, is an issue."""
        source = hash64(deletion.key)
        newest = self._newest.get(source)
        if source not in self._newest and self._base is not None:
            newest = self._base.table.find_newest(deletion.key)
        if newest is None:
            self.refuse(f"no source {deletion.key[:MAX_NAME_CHARS]!r} is there to delete")
        elif deletion.when is not None and deletion.when < newest:
            self.refuse(f"source {deletion.key[:MAX_NAME_CHARS]!r} has a version of {newest.isoformat()}, after that")
        else:
            # Not before the newest version, which may be dated ahead: a deletion ends all of them.
            when = deletion.when or max(datetime.now(UTC), newest + timedelta(microseconds=1))
            self._write(make_deletion(deletion.key, when))
            self.added -= 1
            self.deleted += 1
            self._newest[source], self._gone[source] = None, self.deleted

    def _add_version(self, document: Document) -> None:
        """Add a document of a source with versions, unless that version is here and the newest one."""
        # By id, which the content makes: two sources may say the same, and each has versions of its own.
        position = None if self._base is None else self._base.table.find_position(document.id)
        source = hash64(document.key)
        again = ""
        if source in self._gone:
            again = f".{self._count_base()}.{self._gone[source]}"
        elif position is not None and not self._is_current(position):
            # An earlier version comes back: as a version of its own, newer than the one that had replaced it.
            again = f".{self._count_base()}"
        ident = f"{document.id}{again}"
        if hash64(ident) in self._ids or (position is not None and not again):
            self.duplicates += 1
            return
        newest = document.published or NEVER
        self._newest[source] = max(self._newest.get(source) or newest, newest)
        self._write(replace(document, id=ident, parent=f"{document.parent}{again}" if document.parent else ""))

    def _count_base(self) -> int:
        return len(self._base.table) if self._base is not None else 0

    def _is_current(self, position: int) -> bool:
        # Of a version with a date the place is given by that date, whenever it comes.
        table = self._base.table if self._base is not None else None
        if table is not None and table.is_deleted(position):
            return False
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
        if self._unreadable and self._unreadable == self.rejected and not (self.added + self.duplicates + self.deleted):
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
