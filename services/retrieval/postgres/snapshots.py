"""Snapshots whose documents, words and vectors are in PostgreSQL; the object store has their segments and manifests.

The database can be emptied: what a snapshot lacks there is filled from its segments when it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path

from fathom.core.ids import content_hash
from fathom.domain.encoders.base import check_vectors
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.snapshot import MANIFEST, Manifest, Open, Part, Snapshot, describe_part
from fathom.services.retrieval.documents.model import Document, parse_document
from fathom.services.retrieval.documents.table import write_segment
from fathom.services.retrieval.postgres.connections import Connections
from fathom.services.retrieval.postgres.ranking import PostgresIndex
from fathom.services.retrieval.postgres.schema import create_tables, index_vectors
from fathom.services.retrieval.postgres.table import PostgresTable
from fathom.services.retrieval.postgres.writing import Encode, store_ends, store_segment

KIND = "postgres"
# Largest corpus whose vectors are all compared: with more, the approximate index is built.
EXACT_LIMIT = 200_000
# What of a recipe changes the rows of a segment.
STORED = ("encoder", "metadata", "title_weight", "words")


class PostgresSnapshots:
    """Builds, fills and opens snapshots in the database that the settings name; thread-safe."""

    def __init__(self, config: Config, open_encoder: Open) -> None:
        """Store the settings without connecting: most services have no such corpus."""
        self._config, self._open_encoder = config, open_encoder

    @cached_property
    def _connections(self) -> Connections:
        config = self._config
        url = config.database_url.get_secret_value()
        connections = Connections(url, config.database_connections, config.database_timeout_s)
        connections.run(create_tables)
        return connections

    def build(
        self, corpus: str, fresh: Iterable[Document], recipe: Recipe, folder: Path, base: Snapshot | None
    ) -> Manifest:
        """Store a snapshot with the documents of ``base`` and then ``fresh``; return its manifest.

        What it has of ``base`` is stored already, unless that was of another recipe or engine.
        """
        segments = list(base.manifest.segments) if base is not None else []
        added = folder / "segment.jsonl"
        if count := write_segment(fresh, added):
            part = describe_part(added, folder, count)
            final = added.rename(folder / f"segment-{part.sha256[:16]}.jsonl")
            segments.append(Part(final.name, part.sha256, part.size_bytes, count))
        added.unlink(missing_ok=True)
        dim = self._open_encoder(recipe.encoder).dim if recipe.encoder else 0
        total = sum(segment.rows for segment in segments)
        created = datetime.now(UTC).isoformat()
        manifest = Manifest(corpus, total, recipe.model_dump(), KIND, dim, tuple(segments), (), created)
        if base is not None:
            self._bring_segments(base, manifest, folder)
        (folder / MANIFEST).write_bytes(manifest.to_json())
        self.fill(manifest, folder)
        return manifest

    def _bring_segments(self, base: Snapshot, manifest: Manifest, folder: Path) -> None:
        """Bring the files of segments that are here, and those that are to be stored anew."""
        missing = set(self.find_missing(manifest))
        start = 0
        for number, segment in enumerate(base.manifest.segments):
            path = folder / segment.path
            if (base.folder / segment.path).exists():
                path.hardlink_to(base.folder / segment.path)
            elif number in missing:
                write_segment(islice(iter_documents(base, start, segment.rows), segment.rows), path)
            start += segment.rows

    def find_missing(self, manifest: Manifest) -> list[int]:
        """Return the numbers of a snapshot's segments that the database does not have."""
        names = name_segments(manifest)
        found = self._connections.run(
            lambda connection: connection.execute("SELECT name FROM segments WHERE name = ANY(%s)", (names,)).fetchall()
        )
        known = {name for (name,) in found}
        return [number for number, name in enumerate(names) if name not in known]

    def fill(self, manifest: Manifest, folder: Path) -> None:
        """Store what is missing of a snapshot, from the files of its segments in ``folder``."""
        recipe, names = Recipe(**manifest.recipe), name_segments(manifest)
        encode = self._make_encode(recipe)
        for number in self.find_missing(manifest):
            path, name = folder / manifest.segments[number].path, names[number]
            # A segment is one transaction: a process that dies leaves it whole or not at all.
            self._connections.run(
                lambda connection, name=name, path=path: store_segment(  # type: ignore[misc]
                    connection, name, read_segment(path), recipe, encode
                )
            )
        segments = [segment for segment, _ in self._find_segments(names)]
        for number, chain in enumerate(chain_segments(names), start=1):
            self._connections.run(
                lambda connection, chain=chain, number=number: store_ends(connection, segments[:number], chain)  # type: ignore[misc]
            )
        if manifest.dim and is_approximate(manifest):
            self._connections.run(lambda connection: index_vectors(connection, manifest.dim))

    def _make_encode(self, recipe: Recipe) -> Encode | None:
        if not recipe.encoder:
            return None
        encoder = self._open_encoder(recipe.encoder)
        return lambda texts: check_vectors(
            encoder.encode(texts, "passage"), len(texts), encoder.dim, recipe.encoder
        ).tolist()

    def _find_segments(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return id and number of documents of each segment, in order."""
        rows = self._connections.run(
            lambda connection: connection.execute(
                "SELECT s.id, s.documents FROM unnest(%s::text[]) WITH ORDINALITY AS w(name, number) "
                "JOIN segments s USING (name) ORDER BY w.number",
                (list(names),),
            ).fetchall()
        )
        return [(segment, documents) for segment, documents in rows]

    def open(self, manifest: Manifest, folder: Path) -> Snapshot:
        """Open a snapshot that is filled."""
        names = name_segments(manifest)
        segments = self._find_segments(names)
        table = PostgresTable(
            self._connections,
            [segment for segment, _ in segments],
            [count for _, count in segments],
            chain_segments(names),
        )
        alpha = manifest.recipe["alpha"]
        index = PostgresIndex(
            table,
            bool(manifest.recipe["words"]),
            manifest.dim,
            None if alpha is None else float(alpha),
            is_approximate(manifest),
        )
        return Snapshot(manifest, table, index, folder)

    def close(self) -> None:
        """Close the connections."""
        if "_connections" in self.__dict__:
            self._connections.close()


def is_approximate(manifest: Manifest) -> bool:
    """Return whether a snapshot's vectors are searched by an index instead of one by one."""
    kind = manifest.recipe["index"]
    return kind in ("hnsw", "ivf") or (kind != "flat" and manifest.documents > EXACT_LIMIT)


def name_segments(manifest: Manifest) -> list[str]:
    """Return the names under which the segments are stored: by content, and by how they are indexed."""
    kind = content_hash([manifest.recipe[name] for name in STORED])
    return [f"{segment.sha256}:{kind[:16]}" for segment in manifest.segments]


def chain_segments(names: Sequence[str]) -> list[str]:
    """Return a name for each beginning of the list of segments: which version is the newest depends on all of it."""
    return [content_hash(list(names[:number])) for number in range(1, len(names) + 1)]


def read_segment(path: Path) -> Iterator[Document]:
    with path.open("rb") as file:
        for line in file:
            yield parse_document(json.loads(line))


def iter_documents(base: Snapshot, start: int, count: int) -> Iterator[Document]:
    return (base.table.documents[position] for position in range(start, start + count))
