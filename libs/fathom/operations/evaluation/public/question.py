"""A question of a public set, with what a model is shown and how an answer is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Scorer = Callable[[str], Mapping[str, float]]


@dataclass(frozen=True)
class PublicItem:
    """Question of a set with its accepted answers, the ids of its passages, and its scorer of an answer."""

    id: str
    question: str
    answers: tuple[str, ...]
    kind: str
    passages: tuple[str, ...]
    score: Scorer
    prompt: str = ""
    """Prompt for the model itself, where the answer is a statement and no run of the agent; "" asks the agent."""
