"""The words that a classifier reads, and the fit of its weights."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.domain.regression import Matrix, find_threshold, fit_linear, minimize, softmax
from fathom.services.planner.classification.examples import LASTING, NO_FACT
from fathom.services.planner.classification.training import weigh_outcomes
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


def test_a_threshold_holds_for_texts_as_they_are_read_and_not_as_the_examples_are_mixed() -> None:
    # Four facts and one sentence that says none, all taken for facts; most of what is read says none.
    names = [NO_FACT, "statement"]
    wanted, said = np.array([1, 1, 0, 1, 1]), np.ones(5, int)
    confidence, is_right = np.array([0.95, 0.9, 0.8, 0.7, 0.6]), wanted == said
    acts, counts = weigh_outcomes(wanted, said, names, LASTING)
    assert acts.all()
    assert counts[wanted == 0].sum() == pytest.approx(0.8)
    assert find_threshold(confidence, is_right, 0.8) == 0.6
    assert find_threshold(confidence, is_right, 0.8, counts) == 0.9


def test_outcomes_after_which_nothing_is_done_set_no_threshold() -> None:
    acts, _ = weigh_outcomes(np.array([0, 1]), np.array([0, 0]), [NO_FACT, "statement"], LASTING)
    assert not acts.any()
    others, counts = weigh_outcomes(np.array([0, 1]), np.array([0, 0]), ["a", "b"], "kind")
    assert others.all()
    assert (counts == 1).all()
