"""Encoder of the bundled documents: ``python -m fathom.services.retrieval.tools.encode_bundle --corpus … --models …``.

The service finds the vectors by their texts, also while it runs. With ``--background`` one thread works at the lowest
priority, and ends with the process that started it.
"""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from fathom.domain.encoders.choose import Encoders
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.corpus.bundle_vectors import choose_recipe, encode_documents, locate_vectors
from fathom.services.retrieval.documents.model import read_documents
from fathom.transport.lifetime import end_with_parent

LOWEST_PRIORITY = 19


def encode_bundle(corpus: Path, models: Path, threads: int = 0) -> Path:
    """Compute the vectors of the documents of a folder, unless they are there; return their file.

    Raises ``CorruptData`` for a bad row, ``DependencyFailed`` or ``MissingExtra`` without the encoder.
    """
    import numpy as np

    recipe = choose_recipe(Config())
    assert recipe is not None  # of settings that are all defaults
    documents = read_documents(corpus)
    path = locate_vectors(models, recipe, documents)
    # The name holds a hash of the texts, so a file that is there is the right one.
    if path.exists():
        return path
    vectors = np.concatenate(list(encode_documents(documents, recipe, Encoders(models, threads)(recipe.encoder))))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when it is whole: a service may look at any moment, and two processes may write at once.
    beside = path.with_suffix(f".{secrets.token_hex(8)}.npy")
    try:
        np.save(beside, vectors, allow_pickle=False)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Encodes the bundled documents.")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--background", action="store_true")
    given = parser.parse_args()
    if given.background:
        end_with_parent()
        os.nice(LOWEST_PRIORITY)
    encode_bundle(given.corpus, given.models, threads=1 if given.background else 0)


if __name__ == "__main__":
    main()
