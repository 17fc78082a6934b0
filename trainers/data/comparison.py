"""A small verifiable task over a closed vocabulary: the larger of two digits. Does not import torch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM_PROMPT = "answer"
TAGS = ("<answer>", "</answer>", "<search>", "</search>", "<think>", "</think>")


@dataclass(frozen=True)
class Task:
    """A question with its accepted answers."""

    id: str
    question: str
    references: tuple[str, ...]


def comparison_tasks(digits: int = 6) -> list[Task]:
    """Return a task for each ordered pair of different digits, e.g. "larger of 3 and 5"."""
    pairs = [(a, b) for a in range(digits) for b in range(digits) if a != b]
    return [Task(f"larger-{a}-{b}", f"larger of {a} and {b}", (str(max(a, b)),)) for a, b in pairs]


def split(tasks: Sequence[Task], held_out: float, seed: int) -> tuple[list[Task], list[Task]]:
    """Split into disjoint training and held-out tasks, determined by the seed."""
    shuffled = list(tasks)
    random.Random(seed).shuffle(shuffled)
    count = max(1, round(len(shuffled) * held_out))
    return shuffled[count:], shuffled[:count]


def vocabulary(tasks: Sequence[Task]) -> list[str]:
    """Return every word of the tasks and the system prompt, sorted, followed by the tags."""
    words = {word for task in tasks for word in (*task.question.split(), *task.references)}
    return sorted(words | set(SYSTEM_PROMPT.split())) + list(TAGS)


def records(tasks: Sequence[Task], split_name: str) -> list[dict[str, Any]]:
    """Convert tasks to data set records (see ``fathom.trainers.data.records``)."""
    return [
        {
            "data_source": split_name,
            "prompt": [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": task.question}],
            "reward_model": {"style": "rule", "ground_truth": {"target": list(task.references)}},
            "extra_info": {"split": split_name, "index": index, "question": task.question},
        }
        for index, task in enumerate(tasks)
    ]
