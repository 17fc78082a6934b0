"""The port of engines: what the service asks of the documents and the index of a snapshot, and of who keeps them.

Two engines are behind it: files of this machine (``documents.table``, ``index``), and PostgreSQL (``postgres``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fathom.services.retrieval.documents.model import Document

if TYPE_CHECKING:
    from fathom.services.retrieval.config import Recipe
    from fathom.services.retrieval.corpus.snapshot import Manifest, Snapshot
    from fathom.services.retrieval.index.ranking import Floats, Ranked, Ranking, RankOptions


class Documents(Protocol):
    """Documents in corpus order."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> Document: ...

    def __iter__(self) -> Iterator[Document]: ...


class DocumentTable(Protocol):
    """The documents of a snapshot and look-ups in them; thread-safe."""

    is_remote: bool
    """True where a look-up waits for another machine, so that the event loop must not do it."""

    def __len__(self) -> int: ...

    @property
    def documents(self) -> Documents:
        """Return all documents."""
        ...

    @property
    def newest(self) -> datetime | None:
        """Return when the newest document was published."""
        ...

    def read_documents(self, positions: Sequence[int]) -> list[Document]:
        """Return documents in the order of their positions."""
        ...

    def find_position(self, ident: str) -> int | None:
        """Return the position of the document with this id."""
        ...

    def iter_by_keys(self, keys: Iterable[int]) -> Iterator[Document]:
        """Yield the documents with these keys of ids."""
        ...

    def find_twin(self, document: Document) -> Document | None:
        """Return a document with the same title and text."""
        ...

    def find_newest(self, key: str) -> datetime | None:
        """Return when the newest version of a source was published."""
        ...

    def is_current(self, position: int) -> bool:
        """Return whether no newer version of the document's source is here."""
        ...

    def is_deleted(self, position: int) -> bool:
        """Return whether the document's source was deleted."""
        ...

    def is_readable(self, position: int, as_of: datetime | None) -> bool:
        """Return whether a document may be read by its id."""
        ...


class RankingIndex(Protocol):
    """The index of a snapshot; thread-safe."""

    @property
    def has_words(self) -> bool:
        """Return whether it ranks by words."""
        ...

    @property
    def ranking(self) -> Ranking:
        """Return the default ranking."""
        ...

    def find_missing_side(self, ranking: Ranking) -> str:
        """Return the side that a ranking needs and this index lacks; "" if it has all."""
        ...

    def rank(self, queries: Sequence[str], vectors: Floats | None, options: RankOptions) -> list[Ranked]:
        """Return positions and scores per query, best first."""
        ...


class SnapshotDatabase(Protocol):
    """Keeps snapshots whose recipe names it, for all replicas; thread-safe."""

    def build(
        self, corpus: str, fresh: Iterable[Document], recipe: Recipe, folder: Path, base: Snapshot | None
    ) -> Manifest:
        """Store a snapshot with the documents of ``base`` and then ``fresh``; write its segments into ``folder``."""
        ...

    def find_missing(self, manifest: Manifest) -> list[int]:
        """Return the numbers of a snapshot's segments that it does not have."""
        ...

    def fill(self, manifest: Manifest, folder: Path) -> None:
        """Store what is missing of a snapshot, from the files of its segments."""
        ...

    def open(self, manifest: Manifest, folder: Path) -> Snapshot:
        """Open a snapshot that is filled."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...
