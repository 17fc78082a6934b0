"""Snapshots: immutable, content-addressed states of a corpus, in a folder that can be opened memory-mapped."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fathom.core.errors import CorruptData, MissingExtra
from fathom.core.ids import content_hash
from fathom.services.retrieval.config import Recipe
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.text import tokenise

if TYPE_CHECKING:
    from fathom.domain.encoders.base import Encoder
    from fathom.services.retrieval.corpus.port import DocumentTable, RankingIndex

T = TypeVar("T")
MANIFEST = "snapshot.json"
FORMAT = 1
# Texts per call of the encoder: enough to fill its batches, little enough to hold them in memory.
ENCODED_TOGETHER = 256
READ_BYTES = 1 << 20

Open = Callable[[str], "Encoder"]
"""Returns the encoder of a name; raises ``InvalidField`` for an unknown one."""


@dataclass(frozen=True)
class Part:
    """A file of a snapshot; ``path`` is relative to its folder, ``rows`` is a segment's number of documents."""

    path: str
    sha256: str
    size_bytes: int
    rows: int = 0


@dataclass(frozen=True)
class Manifest:
    """Contents of a snapshot. ``dim`` is 0 without vectors; ``index`` is the kind of the dense index."""

    corpus: str
    documents: int
    recipe: dict[str, Any]
    index: str
    dim: int
    segments: tuple[Part, ...]
    files: tuple[Part, ...]
    created: str = field(compare=False, default="")

    @cached_property
    def id(self) -> str:
        """Return the content address over everything but the time."""
        # Without the time: equal content built twice is one snapshot. Cached, since every request needs it.
        return content_hash([FORMAT, {**asdict(self), "created": ""}])

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.segments + self.files

    @property
    def created_at(self) -> datetime:
        return datetime.fromisoformat(self.created)

    def to_json(self) -> bytes:
        return json.dumps({"format": FORMAT, "id": self.id, **asdict(self)}, indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str) -> Manifest:
        """Parse a manifest; raise ``CorruptData`` naming ``key`` if it is malformed or does not match its id."""
        try:
            content: dict[str, Any] = json.loads(data)
            known, ident = content.pop("format"), content.pop("id")
            content |= {name: tuple(Part(**part) for part in content[name]) for name in ("segments", "files")}
            manifest = cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptData(key, f"is no manifest: {type(error).__name__} {error}") from error
        if known != FORMAT or manifest.id != ident:
            raise CorruptData(key, "is of another format or is not what its id says")
        return manifest


class Snapshot:
    """An open snapshot, read-only and thread-safe. Closes its files when it is no longer referenced."""

    def __init__(self, manifest: Manifest, table: DocumentTable, index: RankingIndex, folder: Path) -> None:
        self.manifest, self.table, self.index, self.folder = manifest, table, index, folder

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def encoder(self) -> str:
        """Return the name of the encoder of its vectors; "" without."""
        return self.manifest.recipe["encoder"] if self.manifest.dim else ""


def build_indexed_text(document: Document, recipe: Recipe) -> str:
    """Return the text for BM25: the weighted title, the text, and metadata if the recipe includes it."""
    text = f"{document.title}\n" * recipe.title_weight + document.text
    if not recipe.metadata:
        return text
    year = "" if document.published is None else f"{document.published.year}"
    return f"{text}\n{' '.join(document.entities)} {year}"


def build_encoded_text(document: Document, recipe: Recipe) -> str:
    """Return the text for the encoder."""
    entities = f" ({', '.join(document.entities)})" if recipe.metadata and document.entities else ""
    return f"{document.title}{entities}\n{document.text}" if document.title else document.text


def build_snapshot(
    corpus: str,
    fresh: Iterable[Document],
    recipe: Recipe,
    folder: Path,
    open_encoder: Open,
    base: Snapshot | None = None,
    index_file: Path | None = None,
) -> Manifest:
    """Write a snapshot with the documents of ``base`` and then ``fresh`` into ``folder``; return its manifest.

    Only fresh documents are written and encoded when ``base`` has the same encoder; the word index is rebuilt.
    ``index_file`` is a FAISS index of all documents in order, used unchanged. Raises ``MissingExtra`` without the
    packages, and the encoder's errors.
    """
    from fathom.services.retrieval.documents.table import Table, find_offsets, write_columns, write_segment

    segments, paths = link_segments(base, folder)
    added = folder / "segment.jsonl"
    if count := write_segment(fresh, added):
        part = describe_part(added, folder, count)
        # Named by its content, so that the same segment has one name in every snapshot.
        final = added.rename(folder / f"segment-{part.sha256[:16]}.jsonl")
        segments.append(Part(final.name, part.sha256, part.size_bytes, count))
        paths.append(final)
    import numpy as np

    from fathom.services.retrieval.documents.table import Segments

    counts = [segment.rows for segment in segments]
    offsets = np.concatenate([np.empty(0, np.int64), *(find_offsets(path) for path in paths)])
    documents = Segments(paths, offsets, counts)
    write_columns(documents, offsets, folder / "columns.npz")
    if recipe.words:
        # BM25's weights depend on the frequencies of the whole corpus, so the word index cannot be extended.
        write_words(documents, recipe, folder)
    index, dim = (
        write_vectors(documents, recipe, folder, open_encoder, base)
        if index_file is None
        else link_vectors(index_file, len(documents), recipe, folder, open_encoder)
    )
    Table(paths, counts, folder / "columns.npz")  # raises now rather than when it is opened
    known = {path.name for path in paths}
    files = tuple(
        describe_part(path, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in known | {added.name}
    )
    manifest = Manifest(
        corpus, len(documents), recipe.model_dump(), index, dim, tuple(segments), files, datetime.now(UTC).isoformat()
    )
    (folder / MANIFEST).write_bytes(manifest.to_json())
    return manifest


def link_segments(base: Snapshot | None, folder: Path) -> tuple[list[Part], list[Path]]:
    """Hard-link the segments of ``base`` into the folder; they are immutable and shared."""
    if base is None:
        return [], []
    paths = []
    for segment in base.manifest.segments:
        path = folder / segment.path
        # No copy: a corpus of gigabytes grows by its new segment only.
        path.hardlink_to(base.folder / segment.path)
        paths.append(path)
    return list(base.manifest.segments), paths


def write_words(documents: Iterable[Document], recipe: Recipe, folder: Path) -> None:
    from fathom.services.retrieval.index.lexical import LexicalIndex

    LexicalIndex.build(tokenise(build_indexed_text(document, recipe)) for document in documents).save(folder)


def write_vectors(
    documents: Sequence[Document] | Any, recipe: Recipe, folder: Path, open_encoder: Open, base: Snapshot | None
) -> tuple[str, int]:
    """Encode documents for which ``base`` has no vectors, and write the dense index; return its kind and dimension."""
    if not recipe.encoder:
        return "", 0
    import numpy as np

    from fathom.domain.encoders.base import check_vectors
    from fathom.services.retrieval.index import dense
    from fathom.services.retrieval.index.ranking import HybridIndex

    encoder = open_encoder(recipe.encoder)
    count, dim, filled = len(documents), encoder.dim, 0
    # Beside the snapshot and not in it: its files are listed and hashed.
    with tempfile.NamedTemporaryFile(dir=folder.parent) as scratch:
        # On disk: the vectors of a large corpus exceed memory.
        vectors = np.memmap(scratch.name, np.float32, "w+", shape=(count, dim))
        known = None
        if base is not None and isinstance(base.index, HybridIndex) and is_reusable(base, recipe):
            known = base.index.dense
        if known is not None:
            for chunk in known.iter_chunks():
                vectors[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
        rest = (build_encoded_text(documents[at], recipe) for at in range(filled, count))
        for texts in split_batches(rest, ENCODED_TOGETHER):
            fresh = check_vectors(encoder.encode(texts, "passage"), len(texts), dim, recipe.encoder)
            vectors[filled : filled + len(texts)] = fresh
            filled += len(texts)
        kind = dense.choose_kind(recipe.index, count)
        dense.write_index(vectors, kind, folder / dense.FILE, known)
        # The map must be gone before its file is.
        del vectors
    return kind, dim


def link_vectors(source: Path, count: int, recipe: Recipe, folder: Path, open_encoder: Open) -> tuple[str, int]:
    """Use an index built elsewhere; raise ``CorruptData`` when it does not fit documents and encoder."""
    from fathom.services.retrieval.index import dense

    dim = open_encoder(recipe.encoder).dim
    # Opened once to check that it fits, before anything refers to it.
    dense.DenseIndex.load(source, count, dim)
    target = folder / dense.FILE
    try:
        target.hardlink_to(source.resolve())
    except OSError:  # another file system
        shutil.copyfile(source, target)
    return "given", dim


def is_reusable(base: Snapshot, recipe: Recipe) -> bool:
    """Return True if the vectors of ``base`` are the same as the recipe would produce."""
    # Of a recipe only these two change the text that is encoded, or its vectors.
    same = ("encoder", "metadata")
    return all(base.manifest.recipe[name] == getattr(recipe, name) for name in same)


def split_batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while batch := list(islice(items, size)):
        yield batch


def describe_part(path: Path, folder: Path, rows: int = 0) -> Part:
    return Part(path.relative_to(folder).as_posix(), hash_file(path), path.stat().st_size, rows)


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def open_snapshot(folder: Path, threads: int = 0) -> Snapshot:
    """Open a folder after checking every file's size and SHA-256.

    Raises ``CorruptData`` naming the file that is missing, truncated or changed, ``MissingExtra`` without packages.
    """
    manifest = read_manifest(folder)
    for part in manifest.parts:
        check_part(folder / part.path, part)
    try:
        from fathom.services.retrieval.documents.table import Table
        from fathom.services.retrieval.index.lexical import LexicalIndex
        from fathom.services.retrieval.index.ranking import HybridIndex

        segments = [folder / segment.path for segment in manifest.segments]
        table = Table(segments, [segment.rows for segment in manifest.segments], folder / "columns.npz")
        dense = None
        if manifest.dim:
            from fathom.services.retrieval.index.dense import FILE, DenseIndex

            dense = DenseIndex.load(folder / FILE, manifest.documents, manifest.dim, threads)
    except ImportError as error:
        raise MissingExtra(error.name or "bm25s", "dense" if manifest.dim else "retrieval") from error
    # Snapshots written before the option have no such key and always have words.
    words = LexicalIndex.load(folder) if manifest.recipe.get("words", True) else None
    alpha = manifest.recipe["alpha"]
    index = HybridIndex(table, words, dense, None if alpha is None else float(alpha))
    return Snapshot(manifest, table, index, folder)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder; raise ``CorruptData`` when it is missing or malformed."""
    path = folder / MANIFEST
    try:
        return Manifest.from_json(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise CorruptData(str(path), "is not there") from error


def is_in_postgres(manifest: Manifest) -> bool:
    """Return whether a snapshot's documents and index are in PostgreSQL instead of its folder."""
    return bool(manifest.recipe.get("engine") == "postgres")


def check_part(path: Path, part: Part) -> None:
    """Raise ``CorruptData`` when the file is missing or differs from the part."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise CorruptData(str(path), "is not there") from error
    if size != part.size_bytes:
        raise CorruptData(str(path), f"has {size:,} bytes, not {part.size_bytes:,}: it is truncated or changed")
    if hash_file(path) != part.sha256:
        raise CorruptData(str(path), "has another checksum")
