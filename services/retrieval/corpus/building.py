"""Building of snapshots from documents: segments with words and vectors of their own, and columns over all of them.

An ingest writes one segment and links those that are there, so that it costs what it brings. Small segments at the end
are joined with it, up to ``JOINED_ROWS`` documents, so that there are few of them and no ingest rewrites a large one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fathom.services.retrieval.config import Recipe
from fathom.services.retrieval.corpus.snapshot import (
    EARLIER_VECTORS,
    MANIFEST,
    Manifest,
    Open,
    Part,
    Snapshot,
    describe_part,
)
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.text import tokenise

if TYPE_CHECKING:
    from fathom.services.retrieval.documents.table import Table
    from fathom.services.retrieval.index.dense_segments import DenseSegments
    from fathom.services.retrieval.index.lexical import LexicalIndex

T = TypeVar("T")
# Texts per call of the encoder: enough to fill its batches, little enough to hold them in memory.
ENCODED_TOGETHER = 256
# Most documents of a segment that is made by joining: some seconds of one processor when it comes to that.
JOINED_ROWS = 32_768
# Vectors copied at once: 100 MB at 384 dimensions.
COPIED_TOGETHER = 65_536


@dataclass(frozen=True)
class Layout:
    """The segments of a snapshot that is being built.

    The first ``shared`` ones are those of its base; one more, if any, holds what the base's other segments hold, from
    document ``joined`` on, and then what is new, from ``known`` on.
    """

    segments: tuple[Part, ...]
    shared: int
    joined: int
    known: int

    def iter_bounds(self) -> Iterator[tuple[int, Part, int, int]]:
        """Yield each segment with its number, and the positions of its first document and behind its last."""
        ends = list(accumulate(segment.rows for segment in self.segments))
        for number, (segment, end) in enumerate(zip(self.segments, ends, strict=True)):
            yield number, segment, end - segment.rows, end


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

    Of what ``base`` has, texts are not read, and words and vectors are used again as far as its recipe makes the same.
    ``index_file`` is a FAISS index of all documents in order, used unchanged. Raises ``MissingExtra`` without the
    packages, and the encoder's errors.
    """
    layout = write_segments(fresh, base, folder)
    table = open_table(layout, base, folder)
    if recipe.words:
        write_words(layout, table, recipe, folder, base)
    index, dim = (
        write_vectors(layout, table, recipe, folder, open_encoder, base)
        if index_file is None
        else link_vectors(index_file, layout, recipe, folder, open_encoder)
    )
    texts = {segment.path for segment in layout.segments}
    known = {} if base is None else {part.path: part for part in base.manifest.files}
    files = tuple(
        # Of a file that is the base's own the checksum is known.
        known[path.name]
        if base is not None and path.name in known and path.samefile(base.folder / path.name)
        else describe_part(path, folder)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in texts
    )
    manifest = Manifest(
        corpus, len(table), recipe.model_dump(), index, dim, layout.segments, files, datetime.now(UTC).isoformat()
    )
    (folder / MANIFEST).write_bytes(manifest.to_json())
    return manifest


def write_segments(fresh: Iterable[Document], base: Snapshot | None, folder: Path) -> Layout:
    """Write the texts of what is new, with those of the base's segments that are joined with it; link the others."""
    from fathom.services.retrieval.documents.table import write_segment

    shared = () if base is None else base.manifest.segments
    known = sum(segment.rows for segment in shared)
    added = folder / "segment.jsonl"
    count = write_segment(fresh, added)
    joined = shared[choose_first_joined([segment.rows for segment in shared], count) :] if count else ()
    shared = shared[: len(shared) - len(joined)]
    if base is not None:
        for segment in shared:
            # No copy: a corpus of gigabytes grows by its new segment only.
            (folder / segment.path).hardlink_to(base.folder / segment.path)
        if joined:
            whole = folder / "joined.jsonl"
            join_files([*(base.folder / segment.path for segment in joined), added], whole)
            whole.replace(added)
    last: tuple[Part, ...] = ()
    if count:
        part = describe_part(added, folder, count + sum(segment.rows for segment in joined))
        # Named by its content, so that the same segment has one name in every snapshot.
        final = added.rename(folder / f"segment-{part.sha256[:16]}.jsonl")
        last = (Part(final.name, part.sha256, part.size_bytes, part.rows),)
    else:
        added.unlink()
    return Layout((*shared, *last), len(shared), sum(segment.rows for segment in shared), known)


def choose_first_joined(rows: Sequence[int], fresh: int) -> int:
    """Return from which of the segments with these rows on they are joined with a new one; their number for none.

    Segments that are less than twice as long as what follows them are joined, so that each is at least twice as long
    as the next one and a document is written again a few times at most.
    """
    first, total = len(rows), fresh
    while first and rows[first - 1] < 2 * total and rows[first - 1] + total <= JOINED_ROWS:
        first -= 1
        total += rows[first]
    return first


def join_files(paths: Iterable[Path], target: Path) -> None:
    """Write the contents of several files into one."""
    with target.open("wb") as whole:
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, whole)


def open_table(layout: Layout, base: Snapshot | None, folder: Path) -> Table:
    """Write the columns of all documents and open them."""
    import numpy as np

    from fathom.services.retrieval.documents.columns import extend_columns, write_columns
    from fathom.services.retrieval.documents.table import Segments, Table, find_offsets

    paths = [folder / segment.path for segment in layout.segments]
    counts = [segment.rows for segment in layout.segments]
    columns = folder / "columns.npz"
    known = base.table if base is not None and isinstance(base.table, Table) else None
    offsets = np.concatenate([
        known.columns["offsets"][: layout.joined] if known is not None else np.empty(0, np.int64),
        *(find_offsets(path) for path in paths[layout.shared if known is not None else 0 :]),
    ])  # fmt: skip
    documents = Segments(paths, offsets, counts)
    if known is None:
        write_columns(documents, offsets, columns)
    else:
        extend_columns(known, (documents[at] for at in range(layout.known, len(documents))), offsets, columns)
    return Table(paths, counts, columns)


def write_words(layout: Layout, table: Table, recipe: Recipe, folder: Path, base: Snapshot | None) -> None:
    """Write the words of the segments that the base has not got, under the same recipe, as they are."""
    from fathom.services.retrieval.index.postings import build_postings, merge_postings

    known = find_words(base, recipe)
    for number, segment, first, end in layout.iter_bounds():
        if known is not None and base is not None and number < layout.shared:
            (folder / segment.words).hardlink_to(base.folder / segment.words)
            continue
        # Those of the segments that are joined, and then of what is new.
        parts = [] if known is None else list(known.segments[layout.shared :])
        start = first if known is None else layout.known
        texts = (build_indexed_text(table.documents[at], recipe) for at in range(start, end))
        merge_postings([*parts, build_postings(map(tokenise, texts))]).save(folder / segment.words)


def find_words(base: Snapshot | None, recipe: Recipe) -> LexicalIndex | None:
    """Return the words of the base if the recipe would produce the same."""
    from fathom.services.retrieval.index.lexical import LexicalIndex
    from fathom.services.retrieval.index.ranking import HybridIndex

    if base is None or not isinstance(base.index, HybridIndex) or not isinstance(base.index.lexical, LexicalIndex):
        return None
    # Of a recipe only these two change the text that is indexed.
    return base.index.lexical if is_alike(base, recipe, "title_weight", "metadata") else None


def write_vectors(
    layout: Layout, table: Table, recipe: Recipe, folder: Path, open_encoder: Open, base: Snapshot | None
) -> tuple[str, int]:
    """Encode documents for which ``base`` has no vectors, and write an index for each segment.

    Returns the kind of the largest one, and the dimension.
    """
    if not recipe.encoder:
        return "", 0
    from fathom.services.retrieval.index import dense

    dim = open_encoder(recipe.encoder).dim
    known = find_vectors(base, recipe)
    for number, segment, first, end in layout.iter_bounds():
        if number < layout.shared and base is not None and has_same_vectors(base, segment, recipe):
            (folder / segment.vectors).hardlink_to(base.folder / segment.vectors)
        else:
            write_segment_vectors(segment, table, (first, end), recipe, folder, open_encoder, known)
    return dense.choose_kind(recipe.index, max((segment.rows for segment in layout.segments), default=0)), dim


def write_segment_vectors(
    segment: Part,
    table: Table,
    bounds: tuple[int, int],
    recipe: Recipe,
    folder: Path,
    open_encoder: Open,
    known: DenseSegments | None,
) -> None:
    """Write the vectors of the documents within the bounds, as far as they are known without encoding them."""
    import numpy as np

    from fathom.domain.encoders.base import check_vectors
    from fathom.services.retrieval.index import dense

    encoder, (first, end) = open_encoder(recipe.encoder), bounds
    # Beside the snapshot and not in it: its files are listed and hashed.
    with tempfile.NamedTemporaryFile(dir=folder.parent) as scratch:
        # On disk: the vectors of a large corpus exceed memory.
        vectors = np.memmap(scratch.name, np.float32, "w+", shape=(end - first, encoder.dim))
        filled = 0
        if known is not None:
            for chunk in known.iter_chunks(first, min(end, known.count), COPIED_TOGETHER):
                vectors[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
        rest = (build_encoded_text(table.documents[at], recipe) for at in range(first + filled, end))
        for texts in split_batches(rest, ENCODED_TOGETHER):
            fresh = check_vectors(encoder.encode(texts, "passage"), len(texts), encoder.dim, recipe.encoder)
            vectors[filled : filled + len(texts)] = fresh
            filled += len(texts)
        kind = dense.choose_kind(recipe.index, len(vectors))
        alike = known.segments[0] if known is not None and known.segments else None
        dense.write_index(vectors, kind, folder / segment.vectors, alike)
        # The map must be gone before its file is.
        del vectors


def find_vectors(base: Snapshot | None, recipe: Recipe) -> DenseSegments | None:
    """Return the vectors of the base if the recipe would produce the same."""
    from fathom.services.retrieval.index.ranking import HybridIndex

    if base is None or not isinstance(base.index, HybridIndex):
        return None
    # Of a recipe only these two change the text that is encoded, or its vectors.
    return base.index.dense if is_alike(base, recipe, "encoder", "metadata") else None


def has_same_vectors(base: Snapshot, segment: Part, recipe: Recipe) -> bool:
    """Return whether the base has a file with the vectors of a segment, in an index of the kind that is wanted."""
    return (
        find_vectors(base, recipe) is not None
        and is_alike(base, recipe, "index")
        and all(part.path != EARLIER_VECTORS for part in base.manifest.files)
        and any(part.path == segment.vectors for part in base.manifest.files)
    )


def link_vectors(source: Path, layout: Layout, recipe: Recipe, folder: Path, open_encoder: Open) -> tuple[str, int]:
    """Use an index built elsewhere; raise ``CorruptData`` when it does not fit documents and encoder."""
    from fathom.services.retrieval.index import dense

    dim, count = open_encoder(recipe.encoder).dim, sum(segment.rows for segment in layout.segments)
    # Opened once to check that it fits, before anything refers to it.
    dense.DenseIndex.load(source, count, dim)
    for segment in layout.segments:
        target = folder / segment.vectors
        try:
            target.hardlink_to(source.resolve())
        except OSError:  # another file system
            shutil.copyfile(source, target)
    return "given", dim


def is_alike(base: Snapshot, recipe: Recipe, *names: str) -> bool:
    """Return whether the recipe of ``base`` has the same values under these names."""
    return all(base.manifest.recipe.get(name) == getattr(recipe, name) for name in names)


def build_indexed_text(document: Document, recipe: Recipe) -> str:
    """Return the text for BM25: the weighted title, the text, and metadata if the recipe includes it."""
    text = f"{document.title}\n" * recipe.title_weight + document.text
    if not recipe.metadata:
        return text
    year = "" if document.published is None else f"{document.published.year}"
    # Whoever looks for a report names its house.
    report = f" {document.house} {document.rating}" if document.house or document.rating else ""
    return f"{text}\n{' '.join(document.entities)} {year}{report}"


def build_encoded_text(document: Document, recipe: Recipe) -> str:
    """Return the text for the encoder."""
    entities = f" ({', '.join(document.entities)})" if recipe.metadata and document.entities else ""
    return f"{document.title}{entities}\n{document.text}" if document.title else document.text


def split_batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of at most ``size``."""
    while batch := list(islice(items, size)):
        yield batch
