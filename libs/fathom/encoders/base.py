"""What every encoder does: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from fathom.errors import CorruptData

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["query", "passage"]
"""Models that were trained with two kinds of texts get a prefix by kind."""


@runtime_checkable
class Encoder(Protocol):
    """Encodes in the calling thread; any number of threads may call."""

    @property
    def name(self) -> str:
        """Name that snapshots record: another name means other vectors."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector; raises as ``encode`` does when the model has to be loaded to know it."""
        ...

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Vectors [texts, dim] of Euclidean length 1, in order.

        Raises ``MissingExtra`` without the model's packages, ``DependencyFailed`` when it cannot be had or reached.
        """
        ...


def checked(vectors: NDArray[np.float32], count: int, dim: int, encoder: str) -> NDArray[np.float32]:
    """The vectors, when they are [count, dim] and finite; else ``CorruptData`` naming the encoder."""
    if vectors.shape != (count, dim):
        raise CorruptData(f"vectors of {encoder}", f"shape {vectors.shape}, not {(count, dim)}")
    import numpy as np

    if not np.isfinite(vectors).all():
        raise CorruptData(f"vectors of {encoder}", "some are not finite")
    return vectors
