"""Follow-ups of two public sets with and without memory: CANARD (English) and a Chinese one of everyday talk.

``python -m tests.bench rewritings``. Each dialogue is stored turn by turn, and its follow-up read with the window that
memory gives a run, then without any. Two figures each: follow-ups of which the words that a person added to make them
whole stand in what a model would read, and those to which the planner adds these words itself, without a language
model. The sets are read where they lie (``shared/data``) and are no part of the package; the first follow-ups of the
files are taken, ``FATHOM_BENCH_REWRITINGS`` of them are rewritten (60; 0 for none), ten times as many looked up.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.domain.chat.messages import Message, Role
from fathom.domain.text.language import language_of
from fathom.domain.text.terms import list_words
from fathom.services.memory.segments.vectors import NoVectors
from fathom.services.planner.workflow.rewriting import Rewriter
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.memory.stores import Store, open_store
from tests.bench.planner.rewriting import longest_added, make_rewriter
from tests.bench.planner.router import HOME

DATA = Path("/work/shared/data")
SETS = {"CANARD": DATA / "canard" / "dev.jsonl.gz", "rewrite_zh": DATA / "rewrite_zh" / "dialogues.jsonl"}
# What a run is given, as ``services/memory/config.py`` has it.
FULL_TURNS, MAX_TURNS = 2, 10
REWRITTEN, TIMES = 60, 10
# A character alone may stand anywhere.
FEWEST_SIGNS = 2


@dataclass(frozen=True)
class FollowUp:
    """A follow-up after utterances of two speakers in turn, and the words that a person added to make it whole."""

    said: tuple[str, ...]
    question: str
    added: tuple[str, ...]


def load_follow_ups(path: Path, count: int) -> list[FollowUp]:
    """Return the first follow-ups of a set to which a person added words."""
    found = []
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            added = list_added(row["question"], row["rewrite"])
            if added:
                found.append(FollowUp(tuple(row["history"]), row["question"], added))
            if len(found) == count:
                break
    return found


def list_added(question: str, rewritten: str) -> tuple[str, ...]:
    """Return the content words of a rewriting that its question lacks; of a Chinese one the longest run of signs."""
    if language_of(rewritten) == "zh":
        longest = longest_added(question, rewritten)
        return (longest,) if len(longest) >= FEWEST_SIGNS else ()
    asked = set(list_words(question))
    return tuple(dict.fromkeys(word for word in list_words(rewritten) if word not in asked))


def has_added(text: str, added: Sequence[str]) -> bool:
    """Return whether a text has all words that a person added."""
    words = set(list_words(text))
    return all(word in words or (language_of(word) == "zh" and word in text) for word in added)


async def remember(store: Store, case: FollowUp, conversation: str) -> list[Message]:
    """Store a dialogue and return the window that a run of its follow-up is given."""
    for place in range(0, len(case.said), 2):
        answer = case.said[place + 1] if place + 1 < len(case.said) else "-"
        await store.say(conversation, case.said[place], answer, float(place))
    window, _ = await store.engine.get_window(conversation, FULL_TURNS, MAX_TURNS)
    messages: list[Message] = []
    for turn in window:
        answer = turn.answer or "\n".join(f"- {point}" for point in turn.bullets)
        messages += [Message(Role.USER, turn.question), Message(Role.ASSISTANT, answer or "-")]
    return messages


async def run() -> None:
    """Print both figures of both sets."""
    count = int(os.environ.get("FATHOM_BENCH_REWRITINGS", REWRITTEN))
    windows: dict[str, list[tuple[FollowUp, list[Message]]]] = {}
    for name, path in SETS.items():
        if path.is_file():
            windows[name] = await look_up(name, load_follow_ups(path, max(count, 1) * TIMES))
        else:
            print(f"{name}: {path} is not there")
    # Nobody needs the data service to look up what stands in a window.
    if not count or not windows:
        return
    async with service(HOME / "data" / "tables", models_dir=str(HOME / "models"), embedding="auto") as (servicer, _):
        rewriter = make_rewriter(servicer)
        for name, cases in windows.items():
            await rewrite(name, cases[:count], rewriter)


async def look_up(name: str, cases: Sequence[FollowUp]) -> list[tuple[FollowUp, list[Message]]]:
    """Print how many follow-ups have their added words in memory's window; return each with its window."""
    found: list[tuple[FollowUp, list[Message]]] = []
    held = 0
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(Path(folder) / "memory.sqlite3", NoVectors()) as store:
            for place, case in enumerate(cases):
                window = await remember(store, case, f"c{place}")
                found.append((case, window))
                shown = "\n".join([*(message.content for message in window), case.question])
                held += has_added(shown, case.added)
    print(
        f"{name}: {held} of {len(cases)} follow-ups have all words that a person added in memory's window and their"
        " own, 0 in their own alone (others are no such case)",
        flush=True,
    )
    return found


async def rewrite(name: str, cases: Sequence[tuple[FollowUp, list[Message]]], rewriter: Rewriter) -> None:
    """Print to how many follow-ups the planner adds these words, with memory's window and without."""
    counts = [0, 0]
    for case, window in cases:
        for place, history in enumerate((window, [])):
            counts[place] += has_added((await rewriter.rewrite(case.question, history)).question, case.added)
    print(f"{name}: added without a language model: with memory {counts[0]} of {len(cases)}, without {counts[1]}")
