"""Snapshots: immutable, content-addressed states of a corpus, in a folder that can be opened memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData, MissingExtra
from fathom.core.ids import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fathom.domain.encoders.base import Encoder
    from fathom.services.retrieval.corpus.port import DocumentTable, RankingIndex
    from fathom.services.retrieval.index.dense_segments import DenseSegments
    from fathom.services.retrieval.index.lexical import WordScorer

MANIFEST = "snapshot.json"
FORMAT = 1
READ_BYTES = 1 << 20
# Of snapshots of earlier releases: their one index of words, and their one index of vectors.
EARLIER_WORDS, EARLIER_VECTORS = "bm25/", "dense.faiss"

Open = Callable[[str], "Encoder"]
"""Returns the encoder of a name; raises ``InvalidField`` for an unknown one."""


@dataclass(frozen=True)
class Part:
    """A file of a snapshot; ``path`` is relative to its folder, ``rows`` is a segment's number of documents."""

    path: str
    sha256: str
    size_bytes: int
    rows: int = 0

    @property
    def words(self) -> str:
        """Return the path of a segment's words."""
        return f"words-{self.sha256[:16]}.bin"

    @property
    def vectors(self) -> str:
        """Return the path of a segment's vectors."""
        return f"vectors-{self.sha256[:16]}.faiss"


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


def describe_part(path: Path, folder: Path, rows: int = 0) -> Part:
    return Part(path.relative_to(folder).as_posix(), hash_file(path), path.stat().st_size, rows)


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def open_snapshot(folder: Path, threads: int = 0, *, is_checked: bool = False) -> Snapshot:
    """Open a folder after checking every file's size and SHA-256, unless whoever calls has just done so.

    Raises ``CorruptData`` naming the file that is missing, truncated or changed, ``MissingExtra`` without packages.
    """
    manifest = read_manifest(folder)
    for part in () if is_checked else manifest.parts:
        check_part(folder / part.path, part)
    try:
        from fathom.services.retrieval.documents.table import Table
        from fathom.services.retrieval.index.ranking import HybridIndex

        segments = [folder / segment.path for segment in manifest.segments]
        table = Table(segments, [segment.rows for segment in manifest.segments], folder / "columns.npz")
        # Snapshots written before the option have no such key and always have words.
        words = open_words(manifest, folder, table.columns.get("keys")) if manifest.recipe.get("words", True) else None
        dense = open_vectors(manifest, folder, threads) if manifest.dim else None
    except ImportError as error:
        raise MissingExtra(error.name or "numpy", "dense" if manifest.dim else "retrieval") from error
    alpha = manifest.recipe["alpha"]
    index = HybridIndex(table, words, dense, None if alpha is None else float(alpha))
    return Snapshot(manifest, table, index, folder)


def open_words(manifest: Manifest, folder: Path, sources: NDArray[np.uint64] | None) -> WordScorer:
    """Open the words of a snapshot's segments, or the one index of a snapshot of earlier releases.

    ``sources`` [documents] are the keys of the files that documents are passages of.
    """
    if any(part.path.startswith(EARLIER_WORDS) for part in manifest.files):
        from fathom.services.retrieval.index.earlier_words import EarlierWords

        return EarlierWords(folder)
    from fathom.services.retrieval.index.lexical import LexicalIndex
    from fathom.services.retrieval.index.postings import load_postings

    segments = [load_postings(folder / segment.words, segment.rows) for segment in manifest.segments]
    return LexicalIndex(segments, sources)


def open_vectors(manifest: Manifest, folder: Path, threads: int) -> DenseSegments:
    """Open the vectors of a snapshot's segments, or the one index of a snapshot of earlier releases."""
    from fathom.services.retrieval.index.dense import DenseIndex
    from fathom.services.retrieval.index.dense_segments import DenseSegments

    sizes = {segment.vectors: segment.rows for segment in manifest.segments}
    if any(part.path == EARLIER_VECTORS for part in manifest.files):
        sizes = {EARLIER_VECTORS: manifest.documents}
    opened = [DenseIndex.load(folder / name, rows, manifest.dim, threads) for name, rows in sizes.items()]
    return DenseSegments(opened, manifest.dim)


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
