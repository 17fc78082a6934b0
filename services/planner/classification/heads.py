"""Linear classifiers over sentence vectors and words, and their file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.regression import Matrix, pack, softmax, unpack
from fathom.services.planner.classification.wording import hash_words

# The words count somewhat less than the vector: chosen by cross-validation of the router.
WORDING = 0.7


@dataclass(frozen=True)
class Head:
    """One classifier. ``weights`` is [dim + words, labels], ``bias`` and ``labels`` have one entry per label.

    ``mean`` [dim] is that of the examples' vectors; the other rows are of ``hash_words``. ``thresholds`` has the lowest
    probability at which an outcome counts as sure, by the name of the grouping of labels that is asked for.
    """

    labels: tuple[str, ...]
    mean: Matrix
    weights: Matrix
    bias: Matrix
    temperature: float
    thresholds: Mapping[str, float]

    def probabilities(self, texts: Sequence[str], vectors: NDArray[Any]) -> Matrix:
        """Return calibrated probabilities [texts, labels] of texts with their sentence vectors [texts, dim]."""
        words = hash_words(texts, len(self.weights) - len(self.mean))
        return softmax((join_features(vectors, words, self.mean) @ self.weights + self.bias) / self.temperature)


def join_features(vectors: NDArray[Any], words: Matrix, mean: Matrix) -> Matrix:
    """Return the features [texts, dim + words] that a head multiplies."""
    return np.hstack([center(vectors, mean), WORDING * words])


def center(vectors: NDArray[Any], mean: Matrix) -> Matrix:
    """Return the vectors minus the mean of the examples, of length 1: raw vectors of E5 all point in one direction."""
    return scale_to_unit(vectors.astype(np.float64) - mean)


def dump_head(head: Head) -> dict[str, Any]:
    """Return a head as JSON data; weights as 16-bit floats, which move no probability by more than 0.01."""
    return {
        "labels": list(head.labels),
        "mean": pack(head.mean),
        "weights": pack(head.weights),
        "bias": pack(head.bias),
        "temperature": round(head.temperature, 6),
        "thresholds": {name: round(value, 4) for name, value in head.thresholds.items()},
    }


def load_head(name: str, data: Mapping[str, Any]) -> Head:
    """Return a head from JSON data; raise ``CorruptData`` naming the head when it does not fit together."""
    try:
        labels = tuple(data["labels"])
        mean, bias = unpack(data["mean"]), unpack(data["bias"])
        weights = unpack(data["weights"]).reshape(-1, len(labels))
        head = Head(labels, mean, weights, bias, float(data["temperature"]), dict(data["thresholds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"classifier {name}", f"{type(error).__name__} {error}") from error
    if len(bias) != len(labels) or len(weights) < len(mean) or not np.isfinite(weights).all():
        raise CorruptData(f"classifier {name}", "its weights do not fit its labels")
    return head


def render_file(version: str, encoder: str, heads: Mapping[str, Head], figures: Mapping[str, Any]) -> str:
    """Return the file of the heads, with what they were made from and how well they do on held-out examples."""
    data = {
        "version": version,
        "encoder": encoder,
        "figures": figures,
        "heads": {name: dump_head(head) for name, head in heads.items()},
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def sum_groups(probabilities: Matrix, labels: Sequence[str], groups: Mapping[str, str]) -> tuple[list[str], Matrix]:
    """Return the groups' names and probabilities [texts, groups]; ``groups`` has the group of each label."""
    names = sorted(set(groups.values()))
    member = np.array([[groups[label] == name for name in names] for label in labels], float)
    return names, np.asarray(probabilities @ member)
