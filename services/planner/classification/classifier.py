"""Classification of questions by linear heads over sentence vectors, with an outcome "unsure"."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import CorruptData
from fathom.services.planner.classification.examples import KIND, list_groups
from fathom.services.planner.classification.heads import Head, center, load_head, sum_groups
from fathom.services.planner.classification.vectors import Vectors

FOLDER = Path(__file__).parent
FILE, FORM_FILE, MEASURE_FILE = FOLDER / "heads.json", FOLDER / "form.json", FOLDER / "measure.json"
FACT_FILE, SUBJECT_FILE = FOLDER / "fact.json", FOLDER / "subject.json"


@dataclass(frozen=True)
class Verdict:
    """The likeliest label, its calibrated probability, and whether that is enough; "" and 0 without an encoder."""

    label: str = ""
    probability: float = 0.0
    is_sure: bool = False


@dataclass(frozen=True)
class HeadFile:
    """The heads by name, their version, and the encoder whose vectors they take."""

    version: str
    encoder: str
    heads: Mapping[str, Head]


def load_heads(path: Path = FILE) -> HeadFile:
    """Load the heads; raise ``CorruptData`` for a file that cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        heads = {name: load_head(name, head) for name, head in data["heads"].items()}
        return HeadFile(data["version"], data["encoder"], heads)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise CorruptData(path.name, f"{type(error).__name__} {error}") from error


class Classifier:
    """Classifier of texts by the names of heads and groupings in ``examples``."""

    def __init__(self, vectors: Vectors, file: HeadFile) -> None:
        self._vectors, self._file = vectors, file

    @property
    def version(self) -> str:
        """Return the hash of the examples that the heads were made from."""
        return self._file.version

    async def classify(self, head: str, texts: Sequence[str], grouping: str = KIND) -> list[Verdict]:
        """Return a verdict per text; all unsure where no encoder answers or the heads are made for another one."""
        encoded = await self._vectors.encode(texts) if texts else None
        if encoded is None or encoded.encoder != self._file.encoder:
            return [Verdict()] * len(texts)
        chosen = self._file.heads[head]
        groups = list_groups(head, chosen.labels)[grouping]
        names, summed = sum_groups(chosen.probabilities(texts, encoded.vectors), chosen.labels, groups)
        threshold = chosen.thresholds[grouping]
        return [Verdict(names[int(row.argmax())], float(row.max()), bool(row.max() >= threshold)) for row in summed]

    async def compare(self, head: str, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return how similar each text is to the most similar of the others; [] where no encoder answers.

        Similarities are cosines of vectors around the mean of a head's examples.
        """
        sides = [await self._vectors.encode(side) if side else None for side in (texts, others)]
        if any(one is None or one.encoder != self._file.encoder for one in sides):
            return []
        mean = self._file.heads[head].mean
        left, right = (center(one.vectors, mean) for one in sides if one is not None)
        return [float(value) for value in (left @ right.T).max(axis=1)]

    async def classify_one(self, head: str, text: str, grouping: str = KIND) -> Verdict:
        """Return the verdict on one text."""
        return (await self.classify(head, [text], grouping))[0]
