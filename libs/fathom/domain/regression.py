"""Fitting and calibration of linear classifiers.

Multinomial logistic regression with class weights, by limited-memory BFGS (Liu and Nocedal 1989) from zero, hence the
same weights on every machine up to rounding. Temperature scaling (Guo et al. 2017) on held-out folds.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Chosen by cross-validation of the router; vectors have length 1, so that one value suits all heads. The penalty is of
# the sum over all examples: few of them need more of it.
PENALTY, STEPS = 0.03, 120
TEMPERATURES = np.geomspace(0.25, 4.0, 33)
# Pairs of steps and slopes that BFGS remembers, halvings of a step that does not lead down, and the part of the
# predicted descent that is enough (Armijo).
MEMORY, HALVINGS, DESCENT = 10, 30, 1e-4

Objective = Callable[[Matrix], tuple[float, Matrix]]
"""Returns the loss at some weights, and its slope."""


def fit_linear(
    features: NDArray[Any],
    targets: NDArray[np.int64],
    count: int,
    *,
    penalty: float = PENALTY,
    is_balanced: bool = True,
    steps: int = STEPS,
) -> tuple[Matrix, Matrix]:
    """Return weights [dim, count] and bias [count] that minimise the cross-entropy, in which all labels count alike.

    Unless ``is_balanced``, each example does.
    """
    rows, dim = features.shape
    # Half the precision takes half the time; the step is chosen in full precision.
    inputs = np.hstack([features, np.ones((rows, 1))]).astype(np.float32)
    wanted = np.eye(count)[targets]
    # Rare labels count as much as frequent ones.
    weight = (rows / (count * wanted.sum(axis=0).clip(min=1)))[targets] if is_balanced else np.ones(rows)
    decay = np.full((dim + 1, 1), penalty / rows)
    decay[-1] = 0.0

    def measure(weights: Matrix) -> tuple[float, Matrix]:
        found = softmax((inputs @ weights.astype(np.float32)).astype(np.float64))
        right = found[np.arange(rows), targets].clip(min=1e-30)
        loss = float(-(weight * np.log(right)).sum() / rows + 0.5 * (decay * weights**2).sum())
        residual = ((found - wanted) * weight[:, None] / rows).astype(np.float32)
        return loss, (inputs.T @ residual).astype(np.float64) + decay * weights

    found = minimize(measure, np.zeros((dim + 1, count)), steps)
    return found[:-1], found[-1]


def minimize(measure: Objective, weights: Matrix, steps: int = STEPS) -> Matrix:
    """Return the weights after at most so many steps of limited-memory BFGS."""
    pairs: deque[tuple[Matrix, Matrix]] = deque(maxlen=MEMORY)
    loss, slope = measure(weights)
    for _ in range(steps):
        direction = -turn(slope, pairs)
        promised, length = float((direction * slope).sum()), 1.0
        for _ in range(HALVINGS):
            ahead = weights + length * direction
            new_loss, new_slope = measure(ahead)
            if new_loss <= loss + DESCENT * length * promised:
                break
            length /= 2
        else:
            return weights
        step, change = ahead - weights, new_slope - slope
        # Without positive curvature the pair would turn the next step uphill.
        if float((step * change).sum()) > 1e-12:
            pairs.append((step, change))
        weights, loss, slope = ahead, new_loss, new_slope
    return weights


def turn(slope: Matrix, pairs: Sequence[tuple[Matrix, Matrix]] | deque[tuple[Matrix, Matrix]]) -> Matrix:
    """Return the slope times the approximate inverse of the curvature (two-loop recursion)."""
    turned, shares = slope.copy(), []
    for step, change in reversed(pairs):
        share = float((step * turned).sum() / (step * change).sum())
        turned -= share * change
        shares.append(share)
    if pairs:
        step, change = pairs[-1]
        turned *= float((step * change).sum() / (change * change).sum())
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        turned += (share - float((change * turned).sum() / (step * change).sum())) * step
    return turned


def find_temperature(logits: Matrix, targets: NDArray[np.int64]) -> float:
    """Return the temperature with the least negative log-likelihood of held-out labels."""

    def loss(temperature: float) -> float:
        found = softmax(logits / temperature)[np.arange(len(targets)), targets]
        return float(-np.log(found.clip(min=1e-12)).mean())

    return float(min(TEMPERATURES, key=loss))


def find_threshold(
    confidence: Matrix, is_right: NDArray[np.bool_], precision: float, counts: Matrix | None = None
) -> float:
    """Return the lowest probability from which on held-out outcomes are right with this precision; 1.01 for none.

    ``counts`` says how much each of them counts, alike by default.
    """
    order = np.argsort(-confidence, kind="stable")
    each = np.ones(len(order)) if counts is None else counts[order]
    share = np.cumsum(is_right[order] * each) / np.cumsum(each)
    good = np.flatnonzero(share >= precision)
    return float(confidence[order][good[-1]]) if len(good) else 1.01


def softmax(logits: Matrix) -> Matrix:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def pack(values: Matrix) -> str:
    """Return numbers as text, with 16 bits each."""
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def unpack(text: str) -> Matrix:
    """Return the numbers that ``pack`` made a text of."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64)
