"""Documents of a snapshot on disk, read one by one through a memory map, and their columns for filters.

A million documents cost about 60 bytes of memory each, however long their texts are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.domain.mapped_files import map_file
from fathom.services.retrieval.documents.model import DELETED, Document, Filter, hash64, hash_content, parse_document
from fathom.services.retrieval.documents.versions import CURRENT, EPOCH, UNDATED, to_microseconds

# Number of filters whose masks are cached.
MASKS = 64


def write_segment(documents: Iterable[Document], path: Path) -> int:
    """Write one line of JSON per document; return their number."""
    count = 0
    with path.open("wb") as file:
        for document in documents:
            file.write(json.dumps(document.to_row(), ensure_ascii=False, sort_keys=True).encode() + b"\n")
            count += 1
    return count


class Segments:
    """The lines of several files as one sequence of documents."""

    def __init__(self, paths: Sequence[Path], offsets: NDArray[np.int64], counts: Sequence[int]) -> None:
        # Mapped for the life of the snapshot: a folder that is deleted meanwhile stays readable.
        self._maps = [map_file(path) for path in paths]
        self._offsets = offsets
        self._starts = np.cumsum([0, *counts])

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, position: int) -> Document:
        """Return a document; raise ``CorruptData`` when its line cannot be read."""
        # "right", since an empty segment has the same start as the one behind it.
        segment = int(np.searchsorted(self._starts, position, side="right")) - 1
        data, start = self._maps[segment], int(self._offsets[position])
        end = data.find(b"\n", start)
        try:
            return parse_document(json.loads(data[start : end if end >= 0 else len(data)]))
        except ValueError as error:
            raise CorruptData(f"document {position}", str(error)) from error

    def __iter__(self) -> Iterator[Document]:
        return (self[position] for position in range(len(self)))


def find_offsets(path: Path) -> NDArray[np.int64]:
    """Return the byte offsets of a segment's lines."""
    starts, position = [], 0
    with path.open("rb") as file:
        for line in file:
            starts.append(position)
            position += len(line)
    return np.array(starts, dtype=np.int64)


def check_stored(columns: Path) -> None:
    """Raise ``ValueError`` for a file that unpacks to more than it has: columns are not compressed."""
    with ZipFile(columns) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > columns.stat().st_size:
        raise ValueError(f"it would unpack to {unpacked:,} bytes")


class Table:
    """The documents and their columns; read-only, thread-safe."""

    is_remote = False

    def __init__(self, paths: Sequence[Path], counts: Sequence[int], columns: Path) -> None:
        """Open files of ``write_segment`` and of columns; raise ``CorruptData`` naming the file."""
        try:
            check_stored(columns)
            # allow_pickle=False: a file from the object store must not run code.
            with np.load(columns, allow_pickle=False) as stored:
                self._columns: dict[str, NDArray[Any]] = {name: stored[name] for name in stored.files}
            self._names = {
                name: {text: code for code, text in enumerate(json.loads(self._columns[name].tobytes()))}
                for name in ("sources", "types", "entities", "houses", "ratings")
                # A corpus without reports has no columns of theirs.
                if name in self._columns or name not in ("houses", "ratings")
            }
        # MemoryError: an array's header may claim any length.
        except (OSError, ValueError, EOFError, KeyError, BadZipFile, MemoryError) as error:
            raise CorruptData(str(columns), f"{type(error).__name__} {error}") from error
        self.documents = Segments(paths, self._columns["offsets"], counts)
        if sum(counts) != len(self.documents):
            raise CorruptData(str(columns), f"knows {len(self.documents):,} documents, the segments {sum(counts):,}")
        dated = self.publish_times[self.publish_times != UNDATED]
        self.newest = datetime.fromtimestamp(int(dated.max()) / 1e6, UTC) if len(dated) else None
        # Snapshots of earlier releases have no versions.
        self._until = self._columns.get("until")
        self._deleted = self._columns.get("deleted")
        self._has_versions = self._until is not None and bool((self._until != CURRENT).any())
        self._masks: dict[Filter, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the columns as they are stored."""
        return self._columns

    @property
    def publish_times(self) -> NDArray[np.int64]:
        """Return microseconds since 1970 [documents]; ``UNDATED`` when unknown."""
        return self._columns["published"]

    def mask_type(self, name: str) -> NDArray[np.bool_]:
        """Return a mask [documents] of those of the type."""
        mask: NDArray[np.bool_] = np.isin(self._columns["type"], self._find_codes("types", {name}))
        return mask

    def read_documents(self, positions: Sequence[int]) -> list[Document]:
        """Return documents in the order of their positions."""
        return [self.documents[position] for position in positions]

    def find_position(self, ident: str) -> int | None:
        """Return the position of the document with this id, None if there is none."""
        # The hash may be that of another id, so the text decides.
        return next((at for at in self._find_equal("id", hash64(ident)) if self.documents[at].id == ident), None)

    def iter_by_keys(self, keys: Iterable[int]) -> Iterator[Document]:
        """Yield the documents with these keys of ids, as far as they exist."""
        return (self.documents[at] for key in keys for at in self._find_equal("id", key))

    def find_twin(self, document: Document) -> Document | None:
        """Return a document with the same title and text, None if there is none."""
        key = hash_content(document.title, document.text)
        found = (self.documents[at] for at in self._find_equal("content", hash64(key)))
        return next((twin for twin in found if hash_content(twin.title, twin.text) == key), None)

    def _find_equal(self, name: str, key: int) -> list[int]:
        keys, wanted = self._columns[f"{name}_keys"], np.uint64(key)
        first, last = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        return [int(at) for at in self._columns[f"{name}_order"][first:last]]

    def is_current(self, position: int) -> bool:
        """Return whether no newer version of the document's source is here."""
        return self._until is None or bool(self._until[position] == CURRENT)

    def find_newest(self, key: str) -> datetime | None:
        """Return when the newest version of a source was published, the first instant of all when none has a date.

        None for an unknown source, and for one that is deleted.
        """
        keys = self._columns.get("keys")
        # The hash may be that of another key, so the text decides.
        among = range(len(self)) if keys is None else np.flatnonzero(keys == np.uint64(hash64(key)))
        found = [int(at) for at in among if self.documents[int(at)].key == key]
        if not found or self.is_deleted(found[-1]):
            return None
        dated = [int(self.publish_times[at]) for at in found if self.publish_times[at] != UNDATED]
        return EPOCH + timedelta(microseconds=max(dated)) if dated else datetime.min.replace(tzinfo=UTC)

    def is_deleted(self, position: int) -> bool:
        """Return whether the document's source was deleted."""
        return self._deleted is not None and bool(self._deleted[position])

    def is_readable(self, position: int, as_of: datetime | None) -> bool:
        """Return whether a document may be read by its id: not when its source was deleted, by now or by ``as_of``."""
        if not self.is_deleted(position) or self._until is None:
            return True
        is_version = not self.documents[position].is_deletion
        return is_version and as_of is not None and bool(self._until[position] > to_microseconds(as_of))

    def get_mask(self, allowed: Filter) -> NDArray[np.bool_] | None:
        """Return the mask [documents] of a filter; None when it allows all.

        Equals ``Filter.allows`` on each, and hides versions that others had replaced by ``as_of``, by default by now.
        """
        if allowed == Filter() and not self._has_versions:
            return None
        known = self._masks.get(allowed)
        if known is None:
            known = self._compute_mask(allowed)
            # Masks are a byte per document: 64 of a million are 64 MB. Clearing all is rare enough and needs no order.
            if len(self._masks) >= MASKS:
                self._masks.clear()
            self._masks[allowed] = known
        return known

    def _compute_mask(self, allowed: Filter) -> NDArray[np.bool_]:
        mask = np.ones(len(self), dtype=np.bool_)
        for column, names, wanted in (("source", "sources", allowed.sources), ("type", "types", allowed.types)):
            if wanted:
                mask &= np.isin(self._columns[column], self._find_codes(names, wanted))
        for column, names, among in (("house", "houses", allowed.houses), ("rating", "ratings", allowed.ratings)):
            if among:
                codes = self._find_codes(names, {name.casefold() for name in among})
                mask &= np.isin(self._columns[column], codes) if column in self._columns else np.bool_(False)
        if allowed.entities:
            folded = {entity.casefold() for entity in allowed.entities}
            # Entities of all documents in one array with bounds: a running sum tells which documents have at least one
            # wanted.
            named = np.isin(self._columns["entity"], self._find_codes("entities", folded))
            sums = np.concatenate([[0], np.cumsum(named)])
            bounds = self._columns["entity_bounds"]
            mask &= sums[bounds[1:]] > sums[bounds[:-1]]
        when = self.publish_times
        if allowed.after or allowed.before or allowed.as_of:
            mask &= when != UNDATED
        if allowed.after:
            mask &= when >= to_microseconds(allowed.after)
        if allowed.before:
            mask &= when < to_microseconds(allowed.before)
        if allowed.as_of:
            mask &= when <= to_microseconds(allowed.as_of)
        if self._has_versions and self._until is not None:
            mask &= self._until > to_microseconds(allowed.as_of) if allowed.as_of else self._until == CURRENT
            mask &= ~self.mask_type(DELETED)
        return mask

    def _find_codes(self, names: str, wanted: Iterable[str]) -> list[int]:
        known = self._names.get(names, {})
        return [known[name] for name in wanted if name in known]
