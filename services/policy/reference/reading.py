"""The data tool's typed reading of a question: what its words mean, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fathom.domain.tool_results import Step

NOT_UNDERSTOOD = "NOT_UNDERSTOOD"
Words = tuple[str, str, str]
"""Kind, words and canonical value of a mention."""


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
    """The mentions of a question in their order, what was missing or not understood, and what is taken for granted."""

    mentions: tuple[Words, ...] = ()
    missing: tuple[Mapping[str, Any], ...] = ()
    premises: frozenset[str] = frozenset()
    """Of "rise" and "fall" what the question presumes."""

    def texts(self, kind: str) -> list[str]:
        """Return the distinct words of one kind of mentions, in order."""
        return list(dict.fromkeys(text for one, text, _ in self.mentions if one == kind))

    @property
    def not_understood(self) -> list[Mapping[str, Any]]:
        """Return the missing items of words that were not understood."""
        return [item for item in self.missing if item.get("reason") == NOT_UNDERSTOOD]

    @property
    def entities(self) -> list[str]:
        """Return the ids of what has series of its own: an economy has many, and the euro is the base of all rates."""
        names = dict.fromkeys(value for kind, _, value in self.mentions if kind == "entity")
        return [name for name in names if name not in load_table("phrases")["economies"]]

    @property
    def names(self) -> dict[str, str]:
        """Return the question's own words for each entity; those of a group name none of its members."""
        named = [(text, value) for kind, text, value in reversed(self.mentions) if kind == "entity"]
        groups = {text for text, value in named if any(other == text and one != value for other, one in named)}
        return {value: text for text, value in named if text not in groups}


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_table("texts")["reasons"])


def read_step(step: Step) -> Reading:
    """Return the reading that a result of the data tool carries."""
    mentions = tuple((str(kind), str(text), str(value)) for kind, text, value in step.head.get("words", ()))
    premises = frozenset(str(premise) for _, _, premise in step.head.get("asked", ()) if premise)
    return Reading(mentions, tuple(step.head.get("missing") or ()), premises)
