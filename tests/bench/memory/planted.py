"""Planted turns: whether the turn that a question of a new conversation refers to is among the first three."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fathom.services.memory.segments.vectors import Vectors
from tests.bench.memory.stores import open_store

FILE = Path(__file__).parents[2] / "golden" / "memory" / "planted.jsonl"
TOP = 3


def load_cases(path: Path) -> list[dict[str, Any]]:
    """Return the cases of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def pair_messages(history: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str, str, tuple[int, ...]]]:
    """Return turns of messages: conversation, date, question, answer, and the places of the messages in the history."""
    turns: list[tuple[str, str, str, str, tuple[int, ...]]] = []
    for place, message in enumerate(history):
        conversation, date, content = message["conversation"], message["date"], message["content"]
        last = turns[-1] if turns else None
        if message["role"] == "assistant" and last and last[0] == conversation and last[3] == "-":
            turns[-1] = (*last[:3], content, (*last[4], place))
        elif message["role"] == "assistant":
            turns.append((conversation, date, "-", content, (place,)))
        else:
            turns.append((conversation, date, content, "-", (place,)))
    return turns


async def find_planted(case: Mapping[str, Any], vectors: Vectors) -> int:
    """Return the rank of the turn with the expected message; 0 when it is not among the first ten."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Path(folder) / "memory.sqlite3", vectors) as store:
            places = {}
            for order, (conversation, date, question, answer, messages) in enumerate(pair_messages(case["history"])):
                ended = datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() + order
                number = await store.say(conversation, question, answer, ended)
                places |= dict.fromkeys(messages, (conversation, number))
            found = [(one.turn.conversation, one.turn.number) for one in await store.search(case["question"], 10)]
    wanted = places[case["expected_turn"]]
    return found.index(wanted) + 1 if wanted in found else 0


async def measure(path: Path, vectors: Vectors) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return how many cases of each language were found among the first ``TOP``, all of them, and what was not."""
    found: Counter[str] = Counter()
    all_of: Counter[str] = Counter()
    missed = []
    for case in load_cases(path):
        rank = await find_planted(case, vectors)
        all_of[case["language"]] += 1
        if 1 <= rank <= TOP:
            found[case["language"]] += 1
        else:
            missed.append(f"{case['id']} (rank {rank or 'over 10'})")
    return found, all_of, missed
