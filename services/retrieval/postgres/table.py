"""The documents of a snapshot in PostgreSQL, with the look-ups and filters of ``documents.table``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.services.retrieval.documents.model import DELETED, Document, Filter, hash64, hash_content, parse_document
from fathom.services.retrieval.documents.versions import CURRENT, EPOCH, to_microseconds
from fathom.services.retrieval.postgres.connections import Connections
from fathom.services.retrieval.postgres.writing import sign

# Documents read at once where all are read.
READ_TOGETHER = 500
# The latest end that holds for a passage in a snapshot, of those that its chains have noted.
ENDS = (
    "LEFT JOIN LATERAL (SELECT e.until, e.deleted FROM ends e WHERE e.segment = p.segment "
    "AND e.place = p.place AND e.chain = ANY(%(chains)s::text[]) "
    "ORDER BY array_position(%(chains)s::text[], e.chain) DESC LIMIT 1) v ON true"
)


class PostgresTable:
    """The documents of some segments in order; thread-safe."""

    is_remote = True

    def __init__(
        self, connections: Connections, segments: Sequence[int], counts: Sequence[int], chains: Sequence[str]
    ) -> None:
        """Store which segments are the snapshot's, their sizes, and the chain of segments up to each."""
        self.connections = connections
        self.segments = np.array(segments, np.int64)
        self._starts = np.cumsum([0, *counts])
        self._order = {segment: number for number, segment in enumerate(segments)}
        self.parameters: dict[str, Any] = {"segments": list(segments), "chains": list(chains)}
        self.has_versions, self.newest = connections.run(self._summarise)

    def _summarise(self, connection: Any) -> tuple[bool, datetime | None]:
        (has_versions,) = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM ends WHERE chain = ANY(%(chains)s::text[]))", self.parameters
        ).fetchone()
        (newest,) = connection.execute(
            "SELECT max(newest) FROM segments WHERE id = ANY(%(segments)s)", self.parameters
        ).fetchone()
        return has_versions, None if newest is None else EPOCH + timedelta(microseconds=newest)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def documents(self) -> PostgresTable:
        """Return itself: a sequence of documents."""
        return self

    def __getitem__(self, position: int) -> Document:
        return self.read_documents([position])[0]

    def __iter__(self) -> Iterator[Document]:
        for start in range(0, len(self), READ_TOGETHER):
            yield from self.read_documents(range(start, min(start + READ_TOGETHER, len(self))))

    def locate(self, positions: Sequence[int] | NDArray[np.int64]) -> dict[str, list[int]]:
        """Return the segments and places of documents, as parameters of a statement."""
        at = np.asarray(positions, np.int64)
        # "right", since an empty segment has the same start as the one behind it.
        numbers = np.searchsorted(self._starts, at, side="right") - 1
        return {"in_segments": self.segments[numbers].tolist(), "places": (at - self._starts[numbers]).tolist()}

    def to_position(self, segment: int, place: int) -> int:
        """Return the position of a document in the snapshot."""
        return int(self._starts[self._order[segment]]) + place

    def read_documents(self, positions: Sequence[int]) -> list[Document]:
        """Return documents in the order of their positions; raise ``CorruptData`` for one that is not there."""
        if not len(positions):
            return []
        rows = self.connections.run(
            lambda connection: connection.execute(
                "SELECT w.number, p.document FROM unnest(%(in_segments)s::bigint[], %(places)s::int[]) "
                "WITH ORDINALITY AS w(segment, place, number) JOIN passages p USING (segment, place) "
                "ORDER BY w.number",
                self.locate(positions),
            ).fetchall()
        )
        if len(rows) != len(positions):
            raise CorruptData("passages in the database", f"{len(positions) - len(rows)} of {len(positions)} are gone")
        return [parse_document(json.loads(row)) for _, row in rows]

    def find_position(self, ident: str) -> int | None:
        """Return the position of the document with this id, None if there is none."""
        found = self._find("id_key", hash64(ident))
        return next((at for at, document in found if document.id == ident), None)

    def iter_by_keys(self, keys: Iterable[int]) -> Iterator[Document]:
        """Yield the documents with these keys of ids, as far as they exist."""
        return (document for key in keys for _, document in self._find("id_key", key))

    def find_twin(self, document: Document) -> Document | None:
        """Return a document with the same title and text, None if there is none."""
        key = hash_content(document.title, document.text)
        found = self._find("content_key", hash64(key))
        return next((twin for _, twin in found if hash_content(twin.title, twin.text) == key), None)

    def find_newest(self, key: str) -> datetime | None:
        """Return when the newest version of a source was published, see ``documents.table.Table.find_newest``."""
        found = [(at, document) for at, document in self._find("source_key", hash64(key)) if document.key == key]
        if not found or self.is_deleted(found[-1][0]):
            return None
        dated = [document.published for _, document in found if document.published is not None]
        return max(dated, default=datetime.min.replace(tzinfo=UTC))

    def _find(self, column: str, key: int) -> list[tuple[int, Document]]:
        """Return the documents with a key in corpus order; the key may be that of another text, too."""
        rows = self.connections.run(
            lambda connection: connection.execute(
                f"SELECT segment, place, document FROM passages "
                f"WHERE {column} = %(key)s AND segment = ANY(%(segments)s)",
                {**self.parameters, "key": sign(key)},
            ).fetchall()
        )
        located = ((self.to_position(segment, place), row) for segment, place, row in rows)
        return [(at, parse_document(json.loads(row))) for at, row in sorted(located)]

    def is_current(self, position: int) -> bool:
        """Return whether no newer version of the document's source is here."""
        return self._find_end(position)[0] == CURRENT

    def is_deleted(self, position: int) -> bool:
        """Return whether the document's source was deleted."""
        return self._find_end(position)[1]

    def is_readable(self, position: int, as_of: datetime | None) -> bool:
        """Return whether a document may be read by its id, see ``documents.table.Table.is_readable``."""
        until, is_deleted = self._find_end(position)
        if not is_deleted:
            return True
        return as_of is not None and not self[position].is_deletion and until > to_microseconds(as_of)

    def _find_end(self, position: int) -> tuple[int, bool]:
        if not self.has_versions:
            return CURRENT, False
        row = self.connections.run(
            lambda connection: connection.execute(
                f"SELECT v.until, v.deleted FROM unnest(%(in_segments)s::bigint[], %(places)s::int[]) "
                f"AS p(segment, place) {ENDS}",
                {**self.parameters, **self.locate([position])},
            ).fetchone()
        )
        return (CURRENT, False) if row is None or row[0] is None else (row[0], row[1])

    def build_condition(self, allowed: Filter) -> tuple[str, str, dict[str, Any]]:
        """Return a filter in SQL: joins to passages ``p``, conditions beginning with AND, and their parameters."""
        conditions, parameters = "", dict[str, Any]()
        for column, wanted in (("source", allowed.sources), ("type", allowed.types)):
            if wanted:
                conditions += f" AND p.{column} = ANY(%({column}s)s)"
                parameters[f"{column}s"] = list(wanted)
        for column, among in (("house", allowed.houses), ("rating", allowed.ratings)):
            if among:
                conditions += f" AND p.{column} = ANY(%({column}s)s)"
                parameters[f"{column}s"] = [name.casefold() for name in among]
        if allowed.entities:
            conditions += " AND p.entities && %(entities)s::text[]"
            parameters["entities"] = [entity.casefold() for entity in allowed.entities]
        for name, sign_, when in (
            ("after", ">=", allowed.after),
            ("before", "<", allowed.before),
            ("as_of", "<=", allowed.as_of),
        ):
            if when is not None:
                conditions += f" AND p.published {sign_} %({name})s"
                parameters[name] = to_microseconds(when)
        if not self.has_versions:
            return "", conditions, parameters
        until = f"coalesce(v.until, {CURRENT})"
        conditions += f" AND {until} > %(as_of)s" if allowed.as_of else f" AND {until} = {CURRENT}"
        return ENDS, f"{conditions} AND p.type <> '{DELETED}'", parameters
