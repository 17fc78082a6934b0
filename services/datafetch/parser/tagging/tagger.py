"""Tags of a question's words, each with a calibrated probability, and the file of the head that gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.regression import Matrix, pack, softmax, unpack
from fathom.services.datafetch.parser.mention import Mention, overlap
from fathom.services.datafetch.parser.tagging.markup import CALC
from fathom.services.datafetch.parser.tagging.units import PieceEncoder, Span, find_units, make_features

FILE = Path(__file__).parent / "head.json"
# The threshold of labels that are never sure.
NEVER = 1.01
# Beyond this many units a text is no question, and its features would take memory.
MOST_UNITS = 400


@dataclass(frozen=True)
class Tag:
    """Neighbouring words with one label, the units they consist of, and the probability that each is of it.

    Outcomes from ``threshold`` on are right as often as the labels of their group must be.
    """

    label: str
    units: tuple[Span, ...]
    chances: tuple[float, ...]
    threshold: float

    @property
    def start(self) -> int:
        """Return the position of the first character."""
        return self.units[0][0]

    @property
    def end(self) -> int:
        """Return the position behind the last character."""
        return self.units[-1][1]

    def find_chance(self, span: Span) -> float:
        """Return the mean probability of the units that a stretch of the text has in common with the tag."""
        chances = [chance for unit, chance in zip(self.units, self.chances, strict=True) if overlap(unit, span)]
        return sum(chances) / max(1, len(chances))

    @property
    def span(self) -> Span:
        """Return the positions of the first character and behind the last one."""
        return self.start, self.end

    @property
    def kind(self) -> str:
        """Return the kind of calculation that the words ask for, or ""."""
        return self.label.removeprefix(CALC) if self.label.startswith(CALC) else ""


@dataclass(frozen=True)
class TagHead:
    """A linear head: ``weights`` [dim, labels] of features whose first ones, the states, have the ``mean``.

    ``after`` [labels, labels] is how much likelier than by chance a label follows another one, as a logarithm.
    ``thresholds`` has the least probability of a sure outcome by group of labels.
    """

    version: str
    encoder: str
    labels: tuple[str, ...]
    mean: Matrix
    weights: Matrix
    bias: Matrix
    after: Matrix
    temperature: float
    thresholds: Mapping[str, float]

    def find_logits(self, features: NDArray[np.float64]) -> Matrix:
        """Return the calibrated logits [units, labels]."""
        return np.asarray((center(features, self.mean) @ self.weights + self.bias) / self.temperature)


def center(features: NDArray[np.float64], mean: Matrix) -> Matrix:
    """Return features whose states, the first ones, are relative to the mean of the examples and of length 1."""
    size = len(mean)
    return np.hstack([scale_to_unit(features[:, :size] - mean), features[:, size:]])


def find_path(logits: Matrix, after: Matrix) -> list[int]:
    """Return the likeliest sequence of labels (Viterbi)."""
    best, back = logits[0], []
    for row in logits[1:]:
        scores = best[:, None] + after
        back.append(scores.argmax(axis=0))
        best = scores.max(axis=0) + row
    path = [int(best.argmax())]
    for came in reversed(back):
        path.append(int(came[path[-1]]))
    return path[::-1]


def find_group(label: str) -> str:
    """Return the group of labels that share a threshold: all calculations are one."""
    return "calc" if label.startswith(CALC) else label


class Tagger:
    """Tagger of questions by one head over the states of one encoder; thread-safe, as they are read only."""

    def __init__(self, head: TagHead, encoder: PieceEncoder) -> None:
        self._head, self._encoder = head, encoder

    def tag(self, text: str, mentions: Sequence[Mention]) -> list[Tag]:
        """Return the tags of a text, which has been read as some mentions, in their order; fillers are tags too."""
        units = find_units(text)
        if not 0 < len(units) <= MOST_UNITS:
            return []
        head = self._head
        logits = head.find_logits(make_features(text, units, mentions, self._encoder))
        chances = softmax(logits)
        path = find_path(logits, head.after)
        found = []
        for label, run in groupby(range(len(units)), key=lambda at: path[at]):
            places = list(run)
            name = head.labels[label]
            threshold = head.thresholds.get(find_group(name), NEVER)
            taken = tuple(float(chance) for chance in chances[places, label])
            found.append(Tag(name, tuple(units[at] for at in places), taken, threshold))
        return found


def render_head(head: TagHead, figures: Mapping[str, object]) -> str:
    """Return the file of a head, with how well it does on questions that it has not seen."""
    data = {
        "version": head.version,
        "encoder": head.encoder,
        "labels": list(head.labels),
        "temperature": round(head.temperature, 6),
        "thresholds": {name: round(value, 4) for name, value in sorted(head.thresholds.items())},
        "figures": figures,
        **{name: pack(getattr(head, name)) for name in ("mean", "weights", "bias", "after")},
    }
    return json.dumps(data, indent=1) + "\n"


def load_head(path: Path = FILE) -> TagHead:
    """Load a head; raise ``CorruptData`` naming the file when it does not fit together."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        labels = tuple(data["labels"])
        head = TagHead(
            data["version"],
            data["encoder"],
            labels,
            unpack(data["mean"]),
            unpack(data["weights"]).reshape(-1, len(labels)),
            unpack(data["bias"]),
            unpack(data["after"]).reshape(len(labels), len(labels)),
            float(data["temperature"]),
            dict(data["thresholds"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptData(path.name, f"{type(error).__name__} {error}") from error
    if len(head.bias) != len(labels) or len(head.weights) <= len(head.mean) or not np.isfinite(head.weights).all():
        raise CorruptData(path.name, "its weights do not fit its labels")
    return head
