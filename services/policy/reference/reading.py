"""Output of the data tool: what the words of a question mean, how sure its program is, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fathom.domain.programs.resolved import ResolvedProgram
from fathom.domain.tool_results import Step

Sheet = Mapping[str, Any]
# Labels of clauses that name no measure: of an unsure one, and of one that no label fits.
UNSAID = frozenset({"", "other"})


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
    measures: frozenset[str] = frozenset()
    """Measures that clauses of the question surely ask for."""
    limits: tuple[tuple[str, str, str], ...] = ()
    """Series whose data end before the period that is asked for, or begin behind it: name, period and nearest day."""

    @classmethod
    def from_step(cls, step: Step) -> Reading:
        """Return the reading that a result of the data tool carries."""
        mentions = tuple((str(kind), str(text), str(value)) for kind, text, value in step.head.get("words", ()))
        premises = frozenset(str(premise) for _, _, premise in step.head.get("asked", ()) if premise)
        missing = [item for item in step.head.get("missing") or () if item.get("reason") == "NOT_UNDERSTOOD"]
        limits = tuple(dict.fromkeys(list_limits(step.head.get("missing") or ())))
        unknown = [text for kind, text, _ in mentions if kind == "unknown"]
        left = dict.fromkeys([*unknown, *(str(item.get("subject", "")) for item in missing)])
        measures = frozenset(str(measure) for measure, _, _ in step.head.get("asked", ()) if measure not in UNSAID)
        return cls(mentions, premises, tuple(left), measures, limits)

    def say_limits(self, is_zh: bool) -> list[str]:
        """Return a sentence for each series that has no data in the period that is asked for."""
        return [say("ended", is_zh, *one) for one in self.limits]

    def texts(self, *kinds: str) -> list[str]:
        """Return the distinct words of some kinds of mentions, in order."""
        return list(dict.fromkeys(text for kind, text, _ in self.mentions if kind in kinds))

    @property
    def names(self) -> list[str]:
        """Return ids and words of what has series of its own, as an economy and the euro do not."""
        economies = load_table("phrases")["economies"]
        named = [one for kind, *one in self.mentions if kind == "entity" and one[1] not in economies]
        return list(dict.fromkeys(text for one in named for text in one if text))


@dataclass(frozen=True)
class Written:
    """A program that a language model has written of a question, and how sure the model is of it.

    Without text it has written none, and the data tool's own does not take its place.
    """

    text: str = ""
    is_likely: bool = False
    is_certain: bool = False

    @classmethod
    def from_program(cls, program: ResolvedProgram) -> Written:
        """Return how sure the data tool is of the program that it has read itself."""
        limits = load_table("phrases")
        return cls("", program.confidence >= limits["confidence"], program.confidence >= limits["certain"])


def list_limits(missing: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield name, period and nearest day of the missing items whose period lies before or behind the data."""
    for item in missing:
        if item.get("reason") == "NO_DATA_IN_PERIOD" and item.get("nearest") and item.get("period"):
            name = " ".join(filter(None, (str(item.get("subject", "")), str(item.get("aspect", "")))))
            yield name, str(item["period"]), str(item["nearest"][0])


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_table("texts")["reasons"])


def list_columns(sheet: Sheet) -> list[Mapping[str, Any]]:
    """Return the columns of a sheet that hold values."""
    columns = sheet.get("columns", ())
    return [column for column in columns if not str(column.get("type", "")).startswith(("time", "date", "string"))]
