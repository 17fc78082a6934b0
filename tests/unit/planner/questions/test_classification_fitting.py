"""The words that a classifier reads, and the fit of its weights."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.domain.regression import Matrix, fit_linear, minimize, softmax
from fathom.services.planner.classification.wording import hash_words


def test_texts_that_differ_in_digits_only_have_the_same_words() -> None:
    one, other, third = hash_words(["Apple in 2019", "apple in 2020", "柱状图"], 512)
    assert np.array_equal(one, other)
    assert abs(float(one @ third)) < 0.3
    assert np.linalg.norm(one) == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["", "!!!", "苹果"])
def test_any_text_and_any_size_give_a_row(text: str) -> None:
    assert hash_words([text], 64).shape == (1, 64)
    assert hash_words([text], 0).shape == (1, 0)
    assert np.isfinite(hash_words([text], 64)).all()


def test_the_least_value_is_found() -> None:
    # A narrow valley, in which steps along the slope alone hardly advance.
    scale = np.array([[1.0], [1_000.0]])

    def measure(weights: Matrix) -> tuple[float, Matrix]:
        return float((scale * (weights - 3.0) ** 2).sum()), 2 * scale * (weights - 3.0)

    assert np.allclose(minimize(measure, np.zeros((2, 1))), 3.0, atol=1e-4)


def test_a_fit_tells_the_labels_apart_and_is_the_same_again() -> None:
    made = np.random.default_rng(3)
    centers = np.eye(3, 8)
    targets = np.repeat(np.arange(3), 40)
    features = centers[targets] + 0.1 * made.standard_normal((120, 8))
    weights, bias = fit_linear(features, targets, 3)
    found = softmax(features @ weights + bias)
    assert (found.argmax(axis=1) == targets).all()
    again, _ = fit_linear(features, targets, 3)
    assert np.array_equal(weights, again)
