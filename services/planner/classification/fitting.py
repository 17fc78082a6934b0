"""Folds of examples, and what heads say of those that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.domain.regression import Matrix, fit_linear
from fathom.services.planner.classification.heads import join_features

FOLDS = 5


def assign_folds(targets: NDArray[np.int64], sources: Sequence[str]) -> NDArray[np.int64]:
    """Return the fold of each example: the sources of a label in turn, each with all its examples."""
    fold_of: dict[tuple[int, str], int] = {}
    counts: dict[int, int] = {}
    for target, source in zip(targets.tolist(), sources, strict=True):
        if (target, source) not in fold_of:
            fold_of[target, source] = counts.get(target, 0) % FOLDS
            counts[target] = counts.get(target, 0) + 1
    return np.array([fold_of[key] for key in zip(targets.tolist(), sources, strict=True)])


def held_out_logits(
    vectors: NDArray[Any], words: Matrix, targets: NDArray[np.int64], sources: Sequence[str], count: int
) -> Matrix:
    """Return logits [texts, labels], those of each fold by a head that has not seen it."""
    folds, logits = assign_folds(targets, sources), np.zeros((len(targets), count))
    for fold in range(FOLDS):
        seen = folds != fold
        # A few authors fill a few folds.
        if seen.all():
            continue
        mean = vectors[seen].astype(np.float64).mean(axis=0)
        weights, bias = fit_linear(join_features(vectors[seen], words[seen], mean), targets[seen], count)
        logits[~seen] = join_features(vectors[~seen], words[~seen], mean) @ weights + bias
    return logits
