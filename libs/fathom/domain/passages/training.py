"""``python -m fathom.domain.passages.training DATA MODELS``: fits how likely passages answer.

One model is of words alone, one has the states of the sentence encoder under ``MODELS``, too.
``DATA`` holds public sets of questions with their passages (cmrc2018, qed_nq, tatqa, fincuge_event_qa). Of each
question there are up to three texts: its passage, the same without every sentence that has the answer, and the passage
of another question that shares most terms with it among some. No text of them is kept: the file has weights and figures
alone.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import NotFound
from fathom.domain.passages.answerability import (
    FILE,
    STATES,
    WORDS,
    Quoted,
    join_nearness,
    measure_quotations,
    name_part,
    quote_parts,
)
from fathom.domain.passages.nearness import (
    MEASURES,
    Nearness,
    StateEncoder,
    find_centres,
    open_encoder,
)
from fathom.domain.regression import Matrix, find_temperature, find_threshold, fit_linear, pack, softmax
from fathom.domain.text.terms import Part, list_parts, list_words

SETS = {
    "cmrc2018": ("corpus.jsonl", "queries.jsonl"),
    "qed_nq": ("corpus.jsonl", "queries.jsonl"),
    "tatqa": ("corpus_dev.jsonl", "queries_dev.jsonl"),
    "fincuge_event_qa": ("corpus.jsonl", "queries.jsonl"),
}
FOLDS, SEED, MOST_QUESTIONS, MOST_CHARS, OTHERS = 5, 7, 300, 2_000, 20
# The reply of a set to a question that its passage does not answer.
NO_ANSWER = "无相应参数"
# Stronger than that of classifiers over vectors: chosen by cross-validation.
PENALTY = 1.0
# Share of the quotations said to answer that have to, and of the texts without an answer that may be said to have one.
PRECISION, MOST_WRONG = 0.9, 0.015
# Spread of a measure of nearness; every so many texts are enough for the mean states.
NEARNESS, LEAST_SPREAD, CENTRE_STEP = 0.3, 1e-6, 20
WORD_FEATURES = measure_quotations("Who?", [Quoted(Part("", "He."), "He.")], "", "He.").shape[1]


@dataclass(frozen=True)
class Asked:
    """A question with a text that answers it or not; no ``answers`` where none does."""

    source: str
    question: str
    title: str
    text: str
    answers: tuple[str, ...] = ()

    @property
    def fold(self) -> int:
        """Return the fold: questions of one passage are in the same."""
        return zlib.crc32(self.title.encode() + self.text[:80].encode()) % FOLDS


def list_examples(folder: Path) -> Iterator[Asked]:
    """Yield questions with texts of the sets under a folder."""
    rng = random.Random(SEED)  # noqa: S311 - a sample, no secret
    for source, (corpus, queries) in SETS.items():
        passages = {one["_id"]: one for one in read_lines(folder / source / corpus)}
        asked = [one for one in read_lines(folder / source / queries) if one["gold"] and one["gold"][0] in passages]
        rng.shuffle(asked)
        words = {ident: set(list_words(one["text"])) for ident, one in passages.items()}
        for one in asked[:MOST_QUESTIONS]:
            yield from make_examples(source, one, passages, rng.sample(sorted(passages), OTHERS), words)


def make_examples(
    source: str, asked: dict[str, Any], passages: dict[str, Any], sampled: Sequence[str], words: dict[str, set[str]]
) -> Iterator[Asked]:
    """Yield one question with its passage, with what is left of it, and with another one."""
    passage, question = passages[asked["gold"][0]], str(asked["text"])
    answers = tuple(filter(None, (strip(str(one)) for one in asked["answers"])))
    title, text = str(passage["title"]), str(passage["text"])[:MOST_CHARS]
    if NO_ANSWER in asked["answers"]:
        yield Asked(source, question, title, text)
        return
    # The hardest of all: the same subject, and all that is said of it but the answer.
    kept = [part.text for part in list_parts(text) if not has_answer(part.text, answers)]
    if not has_answer(text, answers) or asked.get("derivation"):
        return
    yield Asked(source, question, title, text, answers)
    if len(kept) > 1:
        yield Asked(source, question, title, "\n".join(kept))
    # As a search would find it where the answer is in no document.
    terms = set(list_words(question))
    other = passages[max(sampled, key=lambda ident: len(terms & words[ident]))]
    if not has_answer(str(other["text"]), answers):
        yield Asked(source, question, str(other["title"]), str(other["text"])[:MOST_CHARS])


def strip(text: str) -> str:
    """Return a text as answers are compared."""
    return re.sub(r"[\s,，]+", "", text).casefold()


def has_answer(text: str, answers: Sequence[str]) -> bool:
    """Return whether a text has one of some answers."""
    plain = strip(text)
    return any(one in plain for one in answers)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@dataclass(frozen=True)
class Measured:
    """Quotations of all texts: features, whether they answer, and of which example.

    ``folds``, ``sources`` and ``has_answer`` are by example. ``centres`` and ``means`` are what was taken off the
    encoder's states and off the measures of nearness.
    """

    features: Matrix
    answers: NDArray[np.int64]
    example: NDArray[np.int64]
    folds: NDArray[np.int64]
    sources: Sequence[str]
    has_answer: NDArray[np.bool_]
    centres: NDArray[np.float32]
    means: Matrix


def measure_examples(examples: Sequence[Asked], encoder: StateEncoder | None = None) -> Measured:
    """Return the features of what may be quoted of some texts for their questions."""
    rows, answers, owners, asked = list[Matrix](), list[int](), list[int](), list[str]()
    states, centres, near = None, np.zeros(0, np.float32), list[Matrix]()
    if encoder is not None:
        centres = find_centres(encoder, [one.text for one in examples[::CENTRE_STEP]])
        states = Nearness(encoder, centres)
    for place, one in enumerate(examples):
        quoted = quote_parts(one.question, one.text)
        if quoted:
            rows.append(measure_quotations(one.question, quoted, one.title, one.text))
            if states is not None:
                near.append(states.measure(one.question, [name_part(one.title, each) for each in quoted]))
            answers += [int(has_answer(each.text, one.answers)) for each in quoted]
            owners += [place] * len(quoted)
            asked.append(one.question)
    means = np.vstack(near).mean(axis=0) if near else np.zeros(0)
    for at, measured in enumerate(near):
        rows[at] = join_nearness(asked[at], rows[at], measured - means)
    return Measured(
        np.vstack(rows).astype(np.float32),
        np.array(answers),
        np.array(owners),
        np.array([one.fold for one in examples]),
        [one.source for one in examples],
        np.array([bool(one.answers) for one in examples]),
        centres,
        means,
    )


def choose_best(found: Measured, chances: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return by example the probability of its likeliest quotation, and whether that answers; 0 without any."""
    best, right = np.zeros(len(found.folds)), np.zeros(len(found.folds), bool)
    for place, chance, answer in zip(found.example, chances, found.answers, strict=True):
        if chance > best[place]:
            best[place], right[place] = chance, bool(answer)
    return best, right


def train(found: Measured) -> dict[str, Any]:
    """Return a model for the file: weights of all examples, threshold and figures of held-out folds."""
    # What is shipped has seen all examples, the figures and the threshold are of models that have not.
    folds, logits = found.folds[found.example], np.zeros((len(found.answers), 2))
    for fold in range(FOLDS):
        seen = folds != fold
        weights, bias = fit_scaled(found.features[seen], found.answers[seen])
        logits[~seen] = found.features[~seen] @ weights + bias
    temperature = find_temperature(logits, found.answers)
    best, right = choose_best(found, softmax(logits / temperature)[:, 1])
    # Questions that a text answers count as much as all others together: they are more frequent with real users.
    share = found.has_answer.mean()
    counts = np.where(found.has_answer, 1.0 / share, 1.0 / (1.0 - share))
    threshold = max(find_threshold(best, right, PRECISION, counts), find_limit(best[~found.has_answer]))
    weights, bias = fit_scaled(found.features, found.answers)
    return {
        "weights": pack(weights[:, 1] - weights[:, 0]),
        "bias": round(float(bias[1] - bias[0]), 6),
        "temperature": round(temperature, 6),
        "threshold": round(threshold, 6),
        "centres": pack(found.centres.astype(np.float64)),
        "means": pack(found.means),
        "figures": {name: report(found, best, right, threshold, name) for name in ("", *SETS)},
    }


def fit_scaled(features: NDArray[Any], answers: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    """Return weights and bias for features as they are, fitted with the measures of nearness at one scale."""
    scales, near = np.ones(features.shape[1]), features[:, WORD_FEATURES : WORD_FEATURES + MEASURES]
    if near.shape[1]:
        # They differ by hundredths, for which the penalty would leave no weight.
        scales[WORD_FEATURES:] = np.tile(NEARNESS / near.std(axis=0).clip(min=LEAST_SPREAD), 2)
    weights, bias = fit_linear(features * scales, answers, 2, penalty=PENALTY, is_balanced=False)
    return weights * scales[:, None], bias


def find_limit(chances: Matrix) -> float:
    """Return the probability that only ``MOST_WRONG`` of the texts without an answer reach."""
    at = int(MOST_WRONG * len(chances))
    return float(np.nextafter(np.sort(chances)[::-1][at], 2.0))


def report(
    found: Measured, best: Matrix, right: NDArray[np.bool_], threshold: float, source: str
) -> dict[str, float | int]:
    """Return what held-out folds of a set, "" for all, show: of answerable questions, and of unanswerable ones."""
    chosen = np.array([source in ("", one) for one in found.sources])
    sure, there = best >= threshold, found.has_answer
    return {
        "answerable": int((chosen & there).sum()),
        "said_and_right": round(float((sure & right)[chosen & there].mean()), 3),
        "said_and_wrong": round(float((sure & ~right)[chosen & there].mean()), 3),
        "nearest_and_right": round(float((~sure & right)[chosen & there].mean()), 3),
        "unanswerable": int((chosen & ~there).sum()),
        "wrongly_said": round(float(sure[chosen & ~there].mean()), 3),
    }


def main() -> None:
    """Fit the model and write its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the public sets")
    parser.add_argument("models", type=Path, help="folder of the encoder, such as .fathom/models")
    given = parser.parse_args()
    examples = list(list_examples(given.data))
    encoder = open_encoder(given.models)
    if encoder is None:
        raise NotFound("encoder", str(given.models), ["fathom data fetches it"])
    made = {WORDS: train(measure_examples(examples)), STATES: train(measure_examples(examples, encoder))}
    FILE.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps({name: one["figures"] for name, one in made.items()}, indent=1))


if __name__ == "__main__":
    main()
