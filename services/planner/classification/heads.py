"""Linear classifiers over sentence vectors: fitting, calibration, and their file.

Multinomial logistic regression with class weights, fitted by accelerated gradient descent (Nesterov 1983) from zero,
hence the same weights on every machine up to rounding. Temperature scaling (Guo et al. 2017) on held-out folds.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData

Matrix = NDArray[np.float64]
# Chosen by cross-validation of the router; vectors have length 1, so that one value suits all heads.
PENALTY, STEPS, FOLDS = 3e-5, 400, 5
TEMPERATURES = np.geomspace(0.25, 4.0, 33)


@dataclass(frozen=True)
class Head:
    """One classifier. ``weights`` is [dim, labels], ``bias`` and ``labels`` have one entry per label.

    ``thresholds`` has the lowest probability at which an outcome counts as sure, by the name of the grouping of labels
    that is asked for.
    """

    labels: tuple[str, ...]
    mean: Matrix
    weights: Matrix
    bias: Matrix
    temperature: float
    thresholds: Mapping[str, float]

    def probabilities(self, vectors: NDArray[Any]) -> Matrix:
        """Return calibrated probabilities [texts, labels] of sentence vectors [texts, dim]."""
        return softmax((center(vectors, self.mean) @ self.weights + self.bias) / self.temperature)


def center(vectors: NDArray[Any], mean: Matrix) -> Matrix:
    """Return the vectors minus the mean of the examples, of length 1: raw vectors of E5 all point in one direction."""
    moved = vectors.astype(np.float64) - mean
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True).clip(min=1e-12))


def softmax(logits: Matrix) -> Matrix:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def fit_linear(vectors: Matrix, targets: NDArray[np.int64], count: int) -> tuple[Matrix, Matrix]:
    """Return weights [dim, count] and bias [count] that minimise the class-weighted cross-entropy."""
    rows, dim = vectors.shape
    wanted = np.eye(count)[targets]
    # Rare labels count as much as frequent ones.
    weight = (rows / (count * wanted.sum(axis=0).clip(min=1)))[targets][:, None]
    # An upper bound of the curvature, with one more column for the bias.
    curvature = 0.5 * (np.linalg.norm(vectors, 2) ** 2 / rows + 1.0) * weight.max() + PENALTY
    weights = ahead = np.zeros((dim + 1, count))
    inputs = np.hstack([vectors, np.ones((rows, 1))])
    decay = np.full((dim + 1, 1), PENALTY)
    decay[-1] = 0.0
    pace = 1.0
    for _ in range(STEPS):
        slope = inputs.T @ ((softmax(inputs @ ahead) - wanted) * weight) / rows + decay * ahead
        stepped = ahead - slope / curvature
        following = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        weights, ahead = stepped, stepped + (pace - 1) / following * (stepped - weights)
        pace = following
    return weights[:-1], weights[-1]


def assign_folds(targets: NDArray[np.int64], sources: Sequence[str]) -> NDArray[np.int64]:
    """Return the fold of each example: the sources of a label in turn, each with all its examples."""
    fold_of: dict[tuple[int, str], int] = {}
    counts: dict[int, int] = {}
    for target, source in zip(targets.tolist(), sources, strict=True):
        if (target, source) not in fold_of:
            fold_of[target, source] = counts.get(target, 0) % FOLDS
            counts[target] = counts.get(target, 0) + 1
    return np.array([fold_of[key] for key in zip(targets.tolist(), sources, strict=True)])


def held_out_logits(vectors: NDArray[Any], targets: NDArray[np.int64], sources: Sequence[str], count: int) -> Matrix:
    """Return logits [texts, labels], those of each fold by a head that has not seen it."""
    folds, logits = assign_folds(targets, sources), np.zeros((len(targets), count))
    for fold in range(FOLDS):
        seen = folds != fold
        mean = vectors[seen].astype(np.float64).mean(axis=0)
        weights, bias = fit_linear(center(vectors[seen], mean), targets[seen], count)
        logits[~seen] = center(vectors[~seen], mean) @ weights + bias
    return logits


def find_temperature(logits: Matrix, targets: NDArray[np.int64]) -> float:
    """Return the temperature with the least negative log-likelihood of held-out labels."""

    def loss(temperature: float) -> float:
        found = softmax(logits / temperature)[np.arange(len(targets)), targets]
        return float(-np.log(found.clip(min=1e-12)).mean())

    return float(min(TEMPERATURES, key=loss))


def find_threshold(confidence: Matrix, is_right: NDArray[np.bool_], precision: float) -> float:
    """Return the lowest probability from which on held-out outcomes are right with this precision; 1.01 for none."""
    order = np.argsort(-confidence, kind="stable")
    share = np.cumsum(is_right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share >= precision)
    return float(confidence[order][good[-1]]) if len(good) else 1.01


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
        weights = unpack(data["weights"]).reshape(len(mean), len(labels))
        head = Head(labels, mean, weights, bias, float(data["temperature"]), dict(data["thresholds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"classifier {name}", f"{type(error).__name__} {error}") from error
    if len(bias) != len(labels) or not np.isfinite(weights).all():
        raise CorruptData(f"classifier {name}", "its weights do not fit its labels")
    return head


def pack(values: Matrix) -> str:
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def unpack(text: str) -> Matrix:
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64)


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
