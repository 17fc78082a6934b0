"""LoCoMo: what is recalled of long dialogues, against the last turns and against all of them.

The first two dialogues were looked at while the shares of a score were chosen; the figures are of the other three.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from fathom.domain.text.terms import list_words
from fathom.services.memory.segments.vectors import Vectors
from fathom.services.planner.answering.rendering.material import estimate_tokens
from tests.bench.memory.stores import open_store

FILE = Path("/work/shared/data/locomo5/locomo5.json.gz")
CHOSEN_BY, TOP, LAST = 2, 5, 10
# Questions whose answer is not in the dialogue.
UNANSWERABLE = 5


@dataclass
class Figures:
    """Shares of questions, and mean tokens of what a model would read, by way of choosing turns."""

    recall: list[float] = field(default_factory=list)
    contained: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)

    def note(self, way: str, texts: Sequence[str], answer: str) -> None:
        """Note what a way of choosing turns gives for one question."""
        text = "\n".join(texts)
        wanted, had = set(list_words(answer)), set(list_words(text))
        self.contained.setdefault(way, []).append(float(bool(wanted) and wanted <= had))
        self.tokens.setdefault(way, []).append(estimate_tokens(text))


def load_dialogues() -> list[dict[str, Any]]:
    """Return the dialogues of the extract."""
    with gzip.open(FILE) as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def list_turns(dialogue: Mapping[str, Any]) -> list[tuple[float, str, str, list[str]]]:
    """Return two utterances at a time as a turn: its end, both texts, and the ids of the utterances."""
    turns = []
    for number in range(1, len(dialogue)):
        if f"session_{number}" not in dialogue:
            continue
        said = dialogue[f"session_{number}_date_time"]
        began = datetime.strptime(said, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        utterances = dialogue[f"session_{number}"]
        for place in range(0, len(utterances), 2):
            pair = utterances[place : place + 2]
            texts = [f"{one['speaker']}: {one['text']} {one.get('blip_caption', '')}".strip() for one in pair]
            ids = [one["dia_id"] for one in pair]
            turns.append((began.timestamp() + place, texts[0], texts[1] if len(texts) > 1 else "-", ids))
    return turns


async def measure(vectors: Vectors) -> Figures:
    """Return the figures of the dialogues that nothing was chosen by."""
    figures = Figures()
    for dialogue in load_dialogues()[CHOSEN_BY:]:
        turns = list_turns(dialogue["conversation"])
        shown = [
            f"[{datetime.fromtimestamp(end, UTC):%d %B %Y}] {asked}\n{answered}" for end, asked, answered, _ in turns
        ]
        places = {ident: place for place, (_, _, _, ids) in enumerate(turns, 1) for ident in ids}
        with tempfile.TemporaryDirectory() as folder:
            async with open_store(Path(folder) / "memory.sqlite3", vectors) as store:
                for ended, asked, answered, _ in turns:
                    await store.say("c", asked, answered, ended)
                for question in dialogue["qa"]:
                    named = re.findall(r"D\d+:\d+", " ".join(question["evidence"]))
                    wanted = {places[ident] for ident in named if ident in places}
                    if question["category"] == UNANSWERABLE or not wanted:
                        continue
                    found = [one.turn.number for one in await store.search(question["question"], TOP)]
                    figures.recall.append(len(wanted & set(found)) / len(wanted))
                    answer = str(question["answer"])
                    figures.note(f"recalled, {TOP} turns", [shown[number - 1] for number in found], answer)
                    figures.note(f"last {LAST} turns", shown[-LAST:], answer)
                    figures.note("all turns", shown, answer)
    return figures


def describe(figures: Figures) -> list[str]:
    """Return the figures as lines."""
    lines = [f"  recall@{TOP} {fmean(figures.recall):.3f} of the evidence, {len(figures.recall)} questions"]
    for way, shares in figures.contained.items():
        lines.append(f"  {way:18} answer contained {fmean(shares):.3f}   tokens {fmean(figures.tokens[way]):,.0f}")
    return lines
