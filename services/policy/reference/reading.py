"""The data tool's typed reading of a question: what its words mean, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fathom.domain.tool_results import Step


@cache
def load_table(name: str) -> Mapping[str, Any]:
    """Return a table of this package: "phrases" (of results, and thresholds) or "texts" (words of answers)."""
    text = resources.files("fathom.services.policy.reference").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def say(name: str, is_zh: bool, *values: object) -> str:
    """Return a text of an answer in one of the languages."""
    return str(load_table("texts")["answer"][name][is_zh]).format(*values)


@dataclass(frozen=True)
class Reading:
    """The mentions of a question in their order, each with kind, words and canonical value, and what it presumes."""

    mentions: tuple[tuple[str, str, str], ...] = ()
    premises: frozenset[str] = frozenset()
    """Of "rise" and "fall" what the question presumes."""
    not_understood: tuple[str, ...] = ()
    """The words that the data tool has not understood."""

    def texts(self, *kinds: str) -> list[str]:
        """Return the distinct words of some kinds of mentions, in order."""
        return list(dict.fromkeys(text for kind, text, _ in self.mentions if kind in kinds))

    @property
    def names(self) -> list[str]:
        """Return ids and words of what has series of its own, as an economy and the euro do not."""
        economies = load_table("phrases")["economies"]
        named = [one for kind, *one in self.mentions if kind == "entity" and one[1] not in economies]
        return list(dict.fromkeys(text for one in named for text in one if text))


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_table("texts")["reasons"])


def read_step(step: Step) -> Reading:
    """Return the reading that a result of the data tool carries."""
    mentions = tuple((str(kind), str(text), str(value)) for kind, text, value in step.head.get("words", ()))
    premises = frozenset(str(premise) for _, _, premise in step.head.get("asked", ()) if premise)
    missing = [item for item in step.head.get("missing") or () if item.get("reason") == "NOT_UNDERSTOOD"]
    unknown = [text for kind, text, _ in mentions if kind == "unknown"]
    left = dict.fromkeys([*unknown, *(str(item.get("subject", "")) for item in missing)])
    return Reading(mentions, premises, tuple(left))
