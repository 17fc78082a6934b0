"""A small verifiable task over a closed vocabulary: which of two digits is larger. No torch here."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM_PROMPT = "answer"
TAGS = ("<answer>", "</answer>", "<search>", "</search>", "<think>", "</think>")


@dataclass(frozen=True)
class Task:
    """A question with its acceptable answers."""

    id: str
    question: str
    references: tuple[str, ...]


def comparison_tasks(digits: int = 6) -> list[Task]:
    """All ordered pairs of different digits: "larger of 3 and 5"."""
    pairs = [(a, b) for a in range(digits) for b in range(digits) if a != b]
    return [Task(f"larger-{a}-{b}", f"larger of {a} and {b}", (str(max(a, b)),)) for a, b in pairs]


def split(tasks: Sequence[Task], held_out: float, seed: int) -> tuple[list[Task], list[Task]]:
    """Training and held-out tasks, disjoint, the same for the same seed."""
    shuffled = list(tasks)
    random.Random(seed).shuffle(shuffled)
    count = max(1, round(len(shuffled) * held_out))
    return shuffled[count:], shuffled[:count]


def vocabulary(tasks: Sequence[Task]) -> list[str]:
    """Every word of the tasks, the system prompt and the tags, sorted."""
    words = {word for task in tasks for word in (*task.question.split(), *task.references)}
    return sorted(words | set(SYSTEM_PROMPT.split())) + list(TAGS)


def records(tasks: Sequence[Task], split_name: str) -> list[dict[str, Any]]:
    """Tasks as the data sets' records (SR33)."""
    return [
        {
            "data_source": split_name,
            "prompt": [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": task.question}],
            "reward_model": {"style": "rule", "ground_truth": {"target": list(task.references)}},
            "extra_info": {"split": split_name, "index": index, "question": task.question},
        }
        for index, task in enumerate(tasks)
    ]
