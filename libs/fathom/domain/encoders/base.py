"""Interface of every encoder: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

from fathom.core.errors import CorruptData

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

F = TypeVar("F", bound="np.floating")
Kind = Literal["query", "passage"]
"""Kind of text; models trained with two kinds of text get a prefix by kind."""
# A vector of zeros stays one instead of becoming NaN.
LEAST_NORM = 1e-12


@runtime_checkable
class Encoder(Protocol):
    """Encodes in the calling thread; thread-safe."""

    @property
    def name(self) -> str:
        """Name recorded in snapshots; another name means other vectors."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector; raises as ``encode`` does when the model must be loaded to know it."""
        ...

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors [texts, dim] of Euclidean length 1, in order.

        Raises ``MissingExtra`` without the model's packages, ``DependencyFailed`` when it cannot be obtained or
        reached.
        """
        ...


def scale_to_unit(vectors: NDArray[F]) -> NDArray[F]:
    """Scale each row to Euclidean length 1, in place, and return the rows; a row of zeros stays one."""
    import numpy as np

    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=LEAST_NORM)
    return vectors


def check_vectors(vectors: NDArray[np.float32], count: int, dim: int, encoder: str) -> NDArray[np.float32]:
    """Return the vectors if they are [count, dim] and finite; raise ``CorruptData`` naming the encoder otherwise."""
    if vectors.shape != (count, dim):
        raise CorruptData(f"vectors of {encoder}", f"shape {vectors.shape}, not {(count, dim)}")
    import numpy as np

    if not np.isfinite(vectors).all():
        raise CorruptData(f"vectors of {encoder}", "some are not finite")
    return vectors
